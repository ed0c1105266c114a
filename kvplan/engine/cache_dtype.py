"""Stage 2: what the launch-wide cache dtype is before any layer exists.

Order of vLLM's start-up: the checkpoint may turn `auto` into a quantised dtype, then the hook of the model's
architecture may rewrite it, then (0.33.0) an explicit half type is held against the model's dtype.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kvplan.checkpoint.values import Checkpoint
from kvplan.engine.config import EngineConfig
from kvplan.engine.dtypes import CACHE_DTYPES
from kvplan.engine.models import hooks
from kvplan.engine.stop import stop
from kvplan.engine.values import Stage, Step
from kvplan.errors import InputError
from kvplan.history import cache
from kvplan.releases import Release

_MODELOPT_CACHE = {"fp8": "fp8_e4m3", "nvfp4": "nvfp4"}
"""What ModelOpt calls a cache format, and the cache dtype that vLLM makes of it."""


@dataclass(frozen=True, slots=True)
class ResolvedCacheDtype:
    """The launch-wide cache dtype after checkpoint and hooks."""

    cache_dtype: str
    steps: tuple[Step, ...]


def resolve(checkpoint: Checkpoint, config: EngineConfig) -> ResolvedCacheDtype:
    """The launch-wide cache dtype. Raises StartupStops where vLLM refuses it."""
    release = config.release
    current = config.requested_cache_dtype
    steps = [
        Step(
            Stage.CACHE_DTYPE,
            "cache.dtype",
            current,
            "as asked" if current != "auto" else "auto: the model's dtype unless something below says otherwise",
            option="--kv-cache-dtype",
        )
    ]
    if current == "auto":
        declared = modelopt_cache_dtype(checkpoint.quantization, release)
        if declared is not None:
            current = declared
            steps.append(
                Step(
                    Stage.CACHE_DTYPE,
                    "cache.dtype",
                    current,
                    "the ModelOpt checkpoint declares a quantised KV cache",
                    option="--kv-cache-dtype",
                )
            )
    hooked = hooks.cache_dtype(checkpoint.architectures, current, config.hardware.capability, release)
    if hooked is not None:
        current = hooked.cache_dtype
        steps.append(
            Step(
                Stage.CACHE_DTYPE,
                "cache.dtype",
                current,
                hooked.cause,
                option="--kv-cache-dtype",
                behaviour=hooked.behaviour,
            )
        )
    _refuse_packed(current, checkpoint)
    if (
        release.has(cache.EXPLICIT_DTYPE_MUST_MATCH_MODEL)
        and current in ("float16", "bfloat16")
        and current != config.model_dtype
    ):
        raise stop(
            Stage.CACHE_DTYPE,
            "dtype_mismatch",
            f'kv_cache_dtype="{current}" is incompatible with dtype="{config.model_dtype}". '
            f"Please set `--kv-cache-dtype` to `auto` or `{config.model_dtype}`.",
            exception="ValidationError",
            facts={"option": "--kv-cache-dtype", "value": current, "model_dtype": config.model_dtype},
        )
    return ResolvedCacheDtype(current, tuple(steps))


def modelopt_cache_dtype(quantization: Mapping[str, Any] | None, release: Release) -> str | None:
    """What a ModelOpt checkpoint makes of `auto`; None where it declares no cache format that vLLM knows.

    vLLM asks, in this order: the inner `quantization` section's `kv_cache_scheme`, the outer one's, the inner
    `kv_cache_quant_algo`, the outer one's.
    """
    if quantization is None or not str(quantization.get("quant_method", "")).startswith("modelopt"):
        return None
    inner = quantization.get("quantization")
    inner = inner if isinstance(inner, Mapping) else quantization
    declared = (
        inner.get("kv_cache_scheme")
        or quantization.get("kv_cache_scheme")
        or inner.get("kv_cache_quant_algo")
        or quantization.get("kv_cache_quant_algo")
    )
    nvfp4_known = release.has(cache.MODELOPT_NVFP4_CACHE)
    if isinstance(declared, Mapping):
        bits, kind = declared.get("num_bits"), declared.get("type")
        if declared.get("dynamic") is False and bits == 8 and kind == "float":
            declared = "fp8"
        elif nvfp4_known and bits == 4 and kind == "float":
            declared = "nvfp4"
        else:
            return None
    if not isinstance(declared, str):
        return None
    known = _MODELOPT_CACHE.get(declared.lower())
    return None if known == "nvfp4" and not nvfp4_known else known


def _refuse_packed(cache_dtype: str, checkpoint: Checkpoint) -> None:
    if any(row.name == cache_dtype and row.packed for row in CACHE_DTYPES):
        raise InputError(
            f"{checkpoint.file}: the checkpoint's quantisation section makes the cache {cache_dtype}, a packed layout "
            "that kvplan does not emulate yet; give --kv-cache-dtype explicitly to plan without it"
        )
