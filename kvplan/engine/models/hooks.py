"""What a model architecture's own config hook does to the cache dtype (`model_executor/models/config.py`)."""

from __future__ import annotations

from dataclasses import dataclass

from kvplan.history import cache
from kvplan.releases import Behaviour, Release


@dataclass(frozen=True, slots=True)
class Hooked:
    """A cache dtype that a hook chose, and why."""

    cache_dtype: str
    cause: str
    behaviour: Behaviour | None = None
    draft_keeps_auto: bool = False
    """Whether a draft that is not the model's own MTP module stays at `auto`."""


def cache_dtype(
    architectures: tuple[str, ...], current: str, capability: tuple[int, int], release: Release
) -> Hooked | None:
    """What the hook of the model's architecture makes of the launch-wide cache dtype; None if it leaves it alone.

    Hooks go by the checkpoint's own architecture name: another name for the same model has none.
    """
    architecture = architectures[0] if architectures else ""
    if architecture == "DeepseekV32ForCausalLM":
        if current.startswith("fp8") and release.has(cache.FP8_DS_MLA_BY_CONFIG_HOOK):
            return Hooked(
                "fp8_ds_mla", "DeepseekV32ForCausalLM stores fp8 as fp8_ds_mla", cache.FP8_DS_MLA_BY_CONFIG_HOOK
            )
        if current == "bfloat16":
            return Hooked("auto", "DeepseekV32ForCausalLM takes bfloat16 as auto")
    if (
        architecture == "GlmMoeDsaForCausalLM"
        and current == "auto"
        and capability[0] == 10
        and release.has(cache.DSA_AUTO_IS_FP8_ON_SM100)
    ):
        return Hooked(
            "fp8_e4m3",
            "GlmMoeDsaForCausalLM uses an fp8 cache by default on compute capability 10.x",
            cache.DSA_AUTO_IS_FP8_ON_SM100,
            draft_keeps_auto=True,
        )
    if (
        architecture in ("Glm5NextForCausalLM", "Glm5NextForConditionalGeneration")
        and current == "auto"
        and capability[0] == 10
        and release.has(cache.GLM5_NEXT_AUTO_IS_FP8_ON_SM100)
    ):
        return Hooked(
            "fp8",
            f"{architecture} uses an fp8 cache by default on compute capability 10.x",
            cache.GLM5_NEXT_AUTO_IS_FP8_ON_SM100,
        )
    return None
