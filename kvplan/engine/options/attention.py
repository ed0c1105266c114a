"""The backend and the FlashAttention version that a launch asks for.

Sources: `engine/arg_utils.py`, `config/attention.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.engine.cache_dtypes import boundary_layers
from kvplan.engine.checks import backend_names
from kvplan.engine.failures import InvalidValue, NotEmulated
from kvplan.engine.options import connectors
from kvplan.engine.stop import config_refuses, stop
from kvplan.engine.values import Stage
from kvplan.history import compressed as history
from kvplan.launch.values import Launch


def backend(launch: Launch) -> Any:
    """The backend asked for, by its own flag or in --attention-config; None without. Raises StartupStops."""
    flag, nested = launch.get("attention_backend"), _nested(launch, "backend")
    if flag is not None and nested is not None:
        raise stop(
            Stage.OPTIONS,
            InvalidValue(option="--attention-backend", value=str(flag)),
            "attention_backend and attention_config.backend are mutually exclusive",
        )
    asked = flag if flag is not None else nested
    backend_names.check(asked, launch.release)
    return asked


def flash_attn_version(launch: Launch, cache_dtype: str) -> int | None:
    """The FlashAttention version that the launch asks for, or that its cache dtype pins."""
    asked: int | None = _nested(launch, "flash_attn_version")
    return boundary_layers.FLASH_ATTENTION if boundary_layers.applies(cache_dtype) else asked


def indexer_dtype(launch: Launch) -> str:
    """What the launch asks of the key caches of DeepSeek-V4's indexers, "auto" where its release does not listen."""
    if _nested(launch, "use_fp4_indexer_cache") is True and launch.release.has(history.INDEXER_ROWS_HALVED):
        return "mxfp4"
    if not launch.release.has(history.INDEXER_ROWS_CHOSEN):
        return "auto"
    return str(_nested(launch, "indexer_kv_dtype") or "auto")


def check_host_rows(launch: Launch, *, indexes: bool) -> None:
    """Refuse HiSparse, rows of sparse attention kept in host memory, where vLLM does, and stop where kvplan must.

    `indexes` says whether the model chooses rows with an indexer. Raises StartupStops.
    """
    asked = _nested(launch, "hisparse_config") is not None or connectors.uses(launch, "HiSparseConnector")
    if not asked or not launch.release.has(history.ROWS_IN_HOST_MEMORY):
        return
    reserves = launch.get("scheduler_reserve_full_isl")
    message = None
    if (launch.get("pipeline_parallel_size") or 1) > 1:
        message = "HiSparse does not support pipeline parallelism."
    elif (launch.get("decode_context_parallel_size") or 1) > 1:
        message = "HiSparse does not support decode context parallelism."
    elif reserves is False:
        message = "HiSparse requires --scheduler-reserve-full-isl; remove --no-scheduler-reserve-full-isl."
    elif not indexes:
        message = "HiSparse is only supported for DSA models with index_topk."
    if message is not None:
        facts = InvalidValue(option="--attention-config", value="hisparse_config")
        raise config_refuses(
            Stage.OPTIONS,
            facts,
            message,
        )
    raise stop(
        Stage.LAYERS,
        NotEmulated(why="HiSparse keeps part of the cache in host memory"),
        "HiSparse keeps part of the cache in host memory, which kvplan does not plan",
        exception="NotEmulated",
    )


def _nested(launch: Launch, key: str) -> Any:
    config = launch.get("attention_config")
    return config.get(key) if isinstance(config, Mapping) else None
