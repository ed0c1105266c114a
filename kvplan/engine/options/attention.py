"""What a launch asks of its attention: backend, FlashAttention version, kernels.

Sources: `engine/arg_utils.py`, `config/attention.py`, and the config hooks of `model_executor/models/config.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from kvplan.engine.backends.software import FA4_MAJORS
from kvplan.engine.cache_dtypes import boundary_layers
from kvplan.engine.checks import backend_names
from kvplan.engine.failures import InvalidValue, NotEmulated
from kvplan.engine.models import families
from kvplan.engine.models.geometry import ModelGeometry
from kvplan.engine.options import connectors
from kvplan.engine.stop import StartupStops, config_refuses, stop
from kvplan.engine.values import Stage
from kvplan.history import compressed as history
from kvplan.launch.fieldvalues import switch
from kvplan.launch.values import PARSER_REFUSES, Hardware, Launch


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the attention config says once the engine config is made."""

    backend: str | None
    flash_attn_version: int | None
    trtllm: bool | None
    """Whether FlashInfer may or must use its TRT-LLM kernels; None leaves it to FlashInfer."""
    non_causal: bool
    """Whether every layer is asked about as one that attends in both directions."""
    backend_by_kind: tuple[tuple[str, str], ...] = ()
    """Backends (enum names) asked for by the kind of cache that a layer keeps, where they go before `backend`."""
    mixes_directions: bool = False
    """Whether layers are asked about as non-causal wherever no backend is named."""


def wishes(launch: Launch, geometry: ModelGeometry, cache_dtype: str) -> Wishes:
    """What the launch asks of attention, its cache dtype pins and the model's config hook makes of that.

    Raises StartupStops where vLLM refuses the backend.
    """
    version: int | None = _nested(launch, "flash_attn_version")
    asked = Wishes(
        backend=_backend(launch),
        flash_attn_version=boundary_layers.FLASH_ATTENTION if boundary_layers.applies(cache_dtype) else version,
        trtllm=switch(_nested(launch, "use_trtllm_attention")),
        non_causal=switch(_nested(launch, "use_non_causal")) is True,
        backend_by_kind=_by_kind(launch),
    )
    hook = families.hook_of(geometry.architecture, launch.release)
    if hook is None:
        return asked
    named = asked.backend if isinstance(asked.backend, str) and asked.backend.strip().lower() != "auto" else None
    if hook.mixes_directions and named is not None and named.strip().upper() == "FLASHINFER":
        raise _hook_refuses(
            named,
            "FlashInfer does not support DiffusionGemma's mixed causal/bidirectional attention. Use "
            "--attention-backend FLASH_ATTN or TRITON_ATTN instead.",
        )
    if hook.masks_recent_output:
        return _masked(asked, named, launch.hardware)
    return replace(asked, mixes_directions=hook.mixes_directions)


def _masked(asked: Wishes, named: str | None, hardware: Hardware) -> Wishes:
    """R-SWA needs a mask of its own, which FlashAttention has from version 4 on."""
    able = hardware.capability[0] in FA4_MAJORS
    name = ("FLASH_ATTN" if able else "TRITON_ATTN") if named is None else named.strip().upper()
    if name in ("TRITON_ATTN", "FLEX_ATTENTION"):
        return replace(asked, backend=name)
    if name != "FLASH_ATTN":
        raise _hook_refuses(
            name, f"Unlimited-OCR: unsupported attention backend <AttentionBackendEnum.{name}> for R-SWA."
        )
    if not able:
        raise _hook_refuses(
            name,
            "Unlimited-OCR: --attention-config backend=FLASH_ATTN requires FA4 (rswa_mask_mod), but FA4 is not "
            "available on this device/installation.",
            "RuntimeError",
        )
    return replace(asked, backend=name, flash_attn_version=max(asked.flash_attn_version or 0, 4))


def _hook_refuses(name: str, message: str, raised: str = "ValueError") -> StartupStops:
    return config_refuses(Stage.OPTIONS, InvalidValue(option="--attention-backend", value=name), message, raised=raised)


def check_parsed(launch: Launch) -> None:
    """Raises StartupStops for backends within --attention-config that do not exist: the parser refuses them."""
    backend_names.check(_nested(launch, "backend"), launch.release, nested=True)
    asked = _nested(launch, "backend_per_kind")
    if isinstance(asked, Mapping):
        backend_names.check_kinds(asked, launch.release)


def check_backend(launch: Launch) -> None:
    """Raises StartupStops for a backend that does not exist, or that is named twice."""
    _backend(launch)


def _backend(launch: Launch) -> Any:
    """The backend asked for, by its own flag or in --attention-config; None without. Raises StartupStops."""
    flag, nested = launch.get("attention_backend"), _nested(launch, "backend")
    if flag is not None and nested is not None:
        raise stop(
            Stage.OPTIONS,
            InvalidValue(option="--attention-backend", value=str(flag)),
            "attention_backend and attention_config.backend are mutually exclusive",
        )
    backend_names.check(flag, launch.release)
    return flag if flag is not None else nested


def _by_kind(launch: Launch) -> tuple[tuple[str, str], ...]:
    """`--attention-config.backend_per_kind`: kinds of cache and the backends that their layers take."""
    asked = _nested(launch, "backend_per_kind")
    if not isinstance(asked, Mapping):
        return ()
    return tuple((kind, name.upper()) for kind, name in asked.items() if isinstance(name, str))


def indexer_dtype(launch: Launch) -> str:
    """What the launch asks of the key caches of sparse attention's indexers, "auto" where it says nothing.

    The older option `use_fp4_indexer_cache` is "fp4" where it is no second name for `indexer_kv_dtype` yet, and
    "mxfp4" where it is. Raises StartupStops where the two contradict each other.
    """
    chosen = _nested(launch, "indexer_kv_dtype")
    if _nested(launch, "use_fp4_indexer_cache") is not True or not launch.release.has(history.INDEXER_ROWS_HALVED):
        return str(chosen or "auto")
    if not launch.release.has(history.INDEXER_ROWS_CHOSEN):
        return "fp4"
    if chosen not in (None, "auto", "mxfp4"):
        raise stop(
            Stage.OPTIONS,
            InvalidValue(option="--attention-config", value="use_fp4_indexer_cache"),
            "argument --attention-config/-ac: 1 validation error for AttentionConfig\n  Value error, "
            f"use_fp4_indexer_cache=True conflicts with indexer_kv_dtype={chosen!r}. Set only indexer_kv_dtype.",
            exception=PARSER_REFUSES,
        )
    return "mxfp4"


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
