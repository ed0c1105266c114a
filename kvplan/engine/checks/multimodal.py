"""What the multimodal config refuses of its own options; a model that takes text alone makes no such config.

Source: `MultiModalConfig` (config/multimodal.py).
"""

from __future__ import annotations

from kvplan.engine.checks import bounds
from kvplan.engine.failures import InvalidValue
from kvplan.engine.options import given
from kvplan.engine.stop import config_refuses
from kvplan.engine.values import Stage
from kvplan.launch.values import Launch

_OBJECT_SIZE = "mm_shm_cache_max_object_size_mb"
_SCALES = ("mm_encoder_fp8_scale_path", "mm_encoder_fp8_scale_save_path")


def check(launch: Launch) -> None:
    """Raises StartupStops for options that exclude each other or are out of bounds."""
    bounds.check(launch, bounds.MULTIMODAL_BOUNDS)
    shared = given.value(launch, "mm_processor_cache_type") == "shm"
    if not shared and given.value(launch, _OBJECT_SIZE) != given.default(launch, _OBJECT_SIZE):
        _refuse(_OBJECT_SIZE, f"'{_OBJECT_SIZE}' should only be set when 'mm_processor_cache_type' is 'shm'.")
    read, saved = (launch.get(name) for name in _SCALES)
    if given.value(launch, "mm_encoder_attn_dtype") != "fp8" and (read is not None or saved is not None):
        listed = " and ".join(f"'{name}'" for name in _SCALES)
        _refuse(_SCALES[0 if read is not None else 1], f"{listed} require 'mm_encoder_attn_dtype' to be 'fp8'.")
    if read is not None and saved is not None:
        _refuse(
            _SCALES[1],
            "'mm_encoder_fp8_scale_save_path' cannot be used with 'mm_encoder_fp8_scale_path' (saving requires dynamic "
            "scaling).",
        )


def _refuse(name: str, message: str) -> None:
    raise config_refuses(Stage.OPTIONS, InvalidValue(option="--" + name.replace("_", "-")), message)
