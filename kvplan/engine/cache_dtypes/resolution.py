"""Stage 2: what the launch-wide cache dtype is before any layer exists.

Order of vLLM's start-up: the checkpoint may turn `auto` into a quantised dtype, then the hook of the model's
architecture may rewrite it, then (0.33.0) an explicit half type is held against the model's dtype.
"""

from __future__ import annotations

from dataclasses import dataclass

from kvplan.checkpoint.values import Checkpoint
from kvplan.engine.cache_dtypes import modelopt
from kvplan.engine.failures import CacheDtypeMismatch, DtypeNotForMla
from kvplan.engine.models import families
from kvplan.engine.stop import config_refuses
from kvplan.engine.values import Stage, Step
from kvplan.history import cache, packed
from kvplan.launch.values import Hardware
from kvplan.releases import Release


@dataclass(frozen=True, slots=True)
class ResolvedCacheDtype:
    """The launch-wide cache dtype after checkpoint and hooks."""

    cache_dtype: str
    steps: tuple[Step, ...]
    draft_keeps_auto: bool = False
    """Whether a draft that is not the model's own MTP module stays at `auto`."""


def resolve(
    checkpoint: Checkpoint, release: Release, hardware: Hardware, *, requested: str, model_dtype: str
) -> ResolvedCacheDtype:
    """The launch-wide cache dtype, where the launch asks for `requested`. Raises StartupStops where vLLM refuses it."""
    current = requested
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
        declared = modelopt.cache_dtype(checkpoint, release)
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
    hook = families.hook_of(checkpoint.architectures[0], release) if checkpoint.architectures else None
    hooked = None
    if hook is not None and hook.cache_dtype is not None:
        hooked = hook.cache_dtype(current, hardware.capability, release)
    if hooked is not None:
        current = hooked.dtype
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
    if (
        release.has(cache.EXPLICIT_DTYPE_MUST_MATCH_MODEL)
        and current in ("float16", "bfloat16")
        and current != model_dtype
    ):
        raise config_refuses(
            Stage.CACHE_DTYPE,
            CacheDtypeMismatch(cache_dtype=current, model_dtype=model_dtype),
            f'kv_cache_dtype="{current}" is incompatible with dtype="{model_dtype}". '
            f"Please set `--kv-cache-dtype` to `auto` or `{model_dtype}`.",
        )
    return ResolvedCacheDtype(current, tuple(steps), hooked is not None and hooked.draft_keeps_auto)


def check_latent(cache_dtype: str, release: Release) -> None:
    """MLA models have no plain NVFP4 cache; 0.20 finds that out only when it looks for a backend."""
    plain = cache_dtype.startswith("nvfp4") and not cache_dtype.endswith("_ds_mla")
    if plain and release.has(packed.NVFP4_REFUSED_WITH_MLA):
        raise config_refuses(
            Stage.CACHE_DTYPE,
            DtypeNotForMla(cache_dtype=cache_dtype),
            "nvfp4 KV cache is not supported with MLA (Multi-head Latent Attention) backends.",
        )
