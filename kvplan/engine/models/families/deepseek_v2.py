"""DeepSeek V2, V3 and V3.2, and the classes made after them: GLM-5, GLM-4 MoE Lite, Kimi K2, A.X K1, Sarvam."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvplan.engine.models import latent
from kvplan.engine.models.drafting import DraftRecipe, Start, own
from kvplan.engine.models.family import Family
from kvplan.engine.models.geometry import LayerGeometry
from kvplan.engine.models.hooks import ConfigHook, HookedDtype, fp8_on_datacenter_blackwell
from kvplan.engine.models.recipe import by_layer_types, named
from kvplan.engine.models.refusals import Refused
from kvplan.history import cache

if TYPE_CHECKING:
    from kvplan.engine.models.construction import Construction
    from kvplan.releases import Release


def layers(made: Construction) -> tuple[LayerGeometry, ...]:
    """DeepSeek V2/V3/V3.2 and the classes made after it."""
    sparse = "index_topk" in made.text
    if made.use_mla or made.entry.module == "models.deepseek_v32":
        return latent.rows(made, sparse=sparse)
    if sparse and made.entry.module == "deepseek_v2":
        # The class hands its indexers' buffer to the ordinary attention, which has no use for it.
        message = "topk_indices_buffer is not         supported for DeepseekV2Attention"
        raise Refused(made.architecture, message, "AssertionError", "layers", "no index_topk without MLA")
    return latent.without_mla(made)


def always_latent(made: Construction) -> tuple[LayerGeometry, ...]:
    """Classes that keep latent rows although vLLM's MLA list does not have their model type."""
    return latent.rows(made, sparse=False)


def _v32_cache_dtype(current: str, _: tuple[int, int], release: Release) -> HookedDtype | None:
    """DeepSeek V3.2: fp8 is the packed row of its sparse backend, and bfloat16 nothing to say."""
    if current.startswith("fp8") and release.has(cache.FP8_DS_MLA_BY_CONFIG_HOOK):
        return HookedDtype(
            "fp8_ds_mla", "DeepseekV32ForCausalLM stores fp8 as fp8_ds_mla", cache.FP8_DS_MLA_BY_CONFIG_HOOK
        )
    if current == "bfloat16":
        return HookedDtype("auto", "DeepseekV32ForCausalLM takes bfloat16 as auto")
    return None


FAMILIES = (
    Family(
        name="latent",
        modules=dict.fromkeys(
            ("AXK1", "deepseek_v2", "glm4_moe_lite", "mistral_large_3", "models.deepseek_v32"), by_layer_types()
        ),
        layers=layers,
        drafts={
            "deepseek_eagle": own(latent.draft, Start.STAGE),
            "deepseek_eagle3": own(latent.dense_draft),
            "deepseek_mtp": DraftRecipe(latent.draft),
            "glm4_moe_lite_mtp": DraftRecipe(latent.draft),
            "mistral_large_3_eagle": own(latent.draft, Start.STAGE),
            "models.deepseek_v32": DraftRecipe(latent.draft),
        },
        hooks={
            "DeepseekV32ForCausalLM": ConfigHook(cache_dtype=_v32_cache_dtype),
            "GlmMoeDsaForCausalLM": fp8_on_datacenter_blackwell(
                "GlmMoeDsaForCausalLM", "fp8_e4m3", cache.DSA_AUTO_IS_FP8_ON_SM100, draft_keeps_auto=True
            ),
        },
    ),
    Family(name="latent_always", modules={"sarvam:SarvamMLAForCausalLM": named()}, layers=always_latent),
)
