"""The backend and the FlashAttention version that a launch asks for.

Sources: `engine/arg_utils.py`, `config/attention.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.engine import boundary
from kvplan.engine.checks import backend_names
from kvplan.engine.stop import stop
from kvplan.engine.values import Stage
from kvplan.launch.values import Launch


def backend(launch: Launch) -> Any:
    """The backend asked for, by its own flag or in --attention-config; None without. Raises StartupStops."""
    flag, nested = launch.get("attention_backend"), _nested(launch, "backend")
    if flag is not None and nested is not None:
        raise stop(
            Stage.OPTIONS,
            "invalid_value",
            "attention_backend and attention_config.backend are mutually exclusive",
            facts={"option": "--attention-backend", "value": str(flag)},
        )
    asked = flag if flag is not None else nested
    backend_names.check(asked, launch.release)
    return asked


def flash_attn_version(launch: Launch, cache_dtype: str) -> int | None:
    """The FlashAttention version that the launch asks for, or that its cache dtype pins."""
    asked: int | None = _nested(launch, "flash_attn_version")
    return boundary.FLASH_ATTENTION if boundary.applies(cache_dtype) else asked


def _nested(launch: Launch, key: str) -> Any:
    config = launch.get("attention_config")
    return config.get(key) if isinstance(config, Mapping) else None
