"""The family of all models that follow the general rule, most of them under its names: no file of its own is theirs."""

from __future__ import annotations

from kvplan.engine.models import drafting
from kvplan.engine.models.drafting import MTP_LAYER, NEXTN, OWN_LAYERS, DraftRecipe, Start, from_zero, own
from kvplan.engine.models.family import Family
from kvplan.engine.models.geometry import GENERAL_FAMILY
from kvplan.engine.models.recipe import DECODER, Recipe, Recipes, Windows, by_layer_types, named
from kvplan.releases import Span

_BY_LAYER_TYPES = (
    "afmoe",
    "apertus",
    "chameleon",
    "ernie45",
    "exaone4",
    "fairseq2_llama",
    "gemma2",
    "gemma3",
    "glm",
    "gritlm",
    "jina",
    "llama",
    "mellum",
    "mistral",
    "muse_glimmer",
    "olmo2",
    "olmo3",
    "phi3",
    "phi4mm",
    "telechat2",
    "teleflm",
)
"""Decoders that follow layer_types under the usual names (most of them are Llama's own classes)."""

_OTHERWISE: dict[str, Recipes] = {
    "arcee": (
        Recipe(layout=".model.layers.{i}.self_attn.attn", windows=Windows.LAYER_TYPES, span=Span(until="0.21.0")),
        Recipe(windows=Windows.LAYER_TYPES, span=Span(since="0.22.1")),
    ),
    "jais2": named(windows=Windows.INTERLEAVED),
    "models.beam": by_layer_types(clears_window=True),
    "bailing_moe": named("model.layers.{i}.attention.attn"),
    "bloom": named("transformer.h.{i}.self_attention.attn"),
    "clip": named("text_model.encoder.layers.{i}.self_attn.attn"),
    "chatglm": named("transformer.encoder.layers.{i}.self_attention.attn"),
    "dbrx": named("transformer.blocks.{i}.norm_attn_norm.attn.attn"),
    "exaone": named("model.h.{i}.attn.attention.attn"),
    "glm4v": named("transformer.encoder.layers.{i}.self_attention.attn"),
    "gpt2": named("transformer.h.{i}.attn.attn"),
    "gpt_j": named("transformer.h.{i}.attn.attn"),
    "gpt_neox": named("gpt_neox.layers.{i}.attention.attn"),
    "grok1": named("model.layers.{i}.attn.attn"),
    "idefics3": by_layer_types("model.text_model.layers.{i}.self_attn.attn"),
    "internlm2": named("model.layers.{i}.attention.attn"),
    "internlm2_ve": named("model.layers.{i}.attention.attn"),
    "jais": named("transformer.h.{i}.attn.attn"),
    "mpt": named("transformer.blocks.{i}.attn.attn"),
    "opt": named("model.decoder.layers.{i}.self_attn.attn"),
    "qwen": named("transformer.h.{i}.attn.attn"),
    "qwen_vl": named("transformer.h.{i}.attn.attn"),
    "smolvlm": by_layer_types("model.text_model.layers.{i}.self_attn.attn"),
    "interns1_pro": named("language_model." + DECODER),
    "aria": by_layer_types("language_model." + DECODER),
    "cohere_compass": by_layer_types("language_model." + DECODER),
    "ernie45_vl": named("language_model." + DECODER),
    "fireredasr2": named("model.decoder.model.layers.{i}.self_attn.attn"),
    "funasr": named("model.decoder.layers.{i}.self_attn.attn"),
    "gemma3:Gemma3Model": by_layer_types(".layers.{i}.self_attn.attn"),
    "sarvam:SarvamMoEForCausalLM": named("model.layers.{i}.attention.attn"),
    # Multimodal classes that build their decoder themselves.
    "molmo": named(),
    "molmo2": named(),
}
"""Decoders under other names, or with windows from elsewhere."""

_DRAFTS = {
    # MTP modules numbered after the target's layers.
    **dict.fromkeys(("ernie_mtp", "glm4_moe_mtp", "glm_ocr_mtp", "hy_v3_mtp", "mimo_mtp"), DraftRecipe()),
    # MTP modules numbered from 0.
    "exaone4_5_mtp": from_zero(MTP_LAYER, *NEXTN, layers=drafting.by_layer_types),
    # EAGLE heads.
    "cohere_eagle": own(drafting.by_layer_types, Start.STAGE),
    "llama_eagle": own(drafting.layers, Start.STAGE),
    "llama_eagle3": own(drafting.by_layer_types),
    "minicpm_eagle": DraftRecipe(layout="model.eagle_layers.{i}.self_attn.attn", start=Start.STAGE, count=OWN_LAYERS),
    "mistral_eagle": own(drafting.layers, Start.STAGE),
    "qwen3_eagle3": own(drafting.by_layer_types),
    # Drafters of a block of tokens.
    "laguna_dflash": own(drafting.layers),
    "models.beam": own(drafting.by_layer_types, Start.TARGET),
}

GENERAL = Family(
    name=GENERAL_FAMILY,
    modules={**dict.fromkeys(_BY_LAYER_TYPES, by_layer_types()), **_OTHERWISE},
    drafts=_DRAFTS,
)
