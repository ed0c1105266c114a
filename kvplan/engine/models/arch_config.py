"""The model-level numbers of vLLM's ModelConfig, from a normalised config.

Source: `transformers_utils/model_arch_config_convertor.py` and `config/model.py`. These numbers decide head
divisibility, block sizes and defaults; the cache is built from what each layer passes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvplan.history import models as history
from kvplan.releases import ALWAYS, Span

if TYPE_CHECKING:
    from kvplan.engine.models.fields import Fields
    from kvplan.releases import Release

KV_HEAD_NAMES = ("n_head_kv", "num_kv_heads", "num_key_value_heads", "multi_query_group_num")
EXPERT_NAMES = ("num_experts", "moe_num_experts", "n_routed_experts", "num_local_experts")

MOST_LAYERS = 10_000
"""Far above any model; a larger count is a broken file."""

MLA_MODEL_TYPES: dict[str, Span] = {
    "AXK1": Span(since="0.17.1", until="0.25.1"),
    "axk1": Span(since="0.26.0"),
    "bailing_hybrid": Span(since="0.17.1"),
    "bailing_hybrid_mtp": Span(since="0.25.1"),
    "bailing_hybrid_v3_mtp": Span(since="0.28.0"),
    "deepseek_mtp": ALWAYS,
    "deepseek_v2": ALWAYS,
    "deepseek_v3": ALWAYS,
    "deepseek_v32": ALWAYS,
    "deepseek_v4": Span(since="0.20.2"),
    "deepseek_v41": Span(since="0.30.0"),
    "dots3_note": Span(since="0.28.0"),
    "glm4_moe_lite": ALWAYS,
    "glm4_moe_lite_mtp": ALWAYS,
    "glm5_next": Span(since="0.30.0"),
    "glm5_next_text": Span(since="0.30.0"),
    "glm_moe_dsa": ALWAYS,
    "hy_v4": Span(since="0.29.0"),
    "hy_v4_mtp": Span(since="0.29.0"),
    "k3_dspark": Span(since="0.27.1"),
    "kimi_k2": ALWAYS,
    "kimi_linear": ALWAYS,
    "longcat_flash": ALWAYS,
    "longcat_flash_ngram": Span(since="0.26.0", until="0.31.0"),
    "pangu_ultra_moe": ALWAYS,
    "pangu_ultra_moe_mtp": ALWAYS,
}
"""Model types (of the text config) that vLLM treats as MLA if they have a kv_lora_rank, with the releases."""

MM_PREFIX_MODEL_TYPES: dict[str, Span] = {
    "bagel": Span(since="0.18.1"),
    "gemma3": ALWAYS,
    "molmo2": ALWAYS,
    "moondream3": Span(since="0.21.0"),
    "paligemma": ALWAYS,
    "umm": Span(since="0.20.2", until="0.28.0"),
}
"""Model types that attend in both directions over image tokens, with the releases that say so."""

MM_PREFIX_BY_FIELD: dict[str, Span] = {
    "gemma4": Span(since="0.20.2"),
    "gemma4_text": Span(since="0.20.2"),
    "gemma4_unified": Span(since="0.23.0"),
    "gemma4_unified_text": Span(since="0.23.0"),
    "diffusion_gemma_text": Span(since="0.24.0"),
    "diffusion_gemma": Span(since="0.31.0"),
}
"""Model types for which `use_bidirectional_attention == "vision"` in the text config decides instead."""

GEMMA4_MODEL_TYPES = {**MM_PREFIX_BY_FIELD, "gemma4": Span(since="0.19.1"), "gemma4_text": Span(since="0.19.1")}


@dataclass(frozen=True, slots=True)
class HeadShape:
    """KV heads and head size of one layer."""

    kv_heads: int
    head_size: int


@dataclass(frozen=True, slots=True)
class Numbers:
    """vLLM's model-level view of the decoder (whole model, before parallelism)."""

    num_layers: int
    total_heads: int
    total_kv_heads: int
    head_size: int
    common: HeadShape
    """What the config says of all layers alike, before layers that differ are looked at."""
    mla_listed: bool
    """Whether the model type is one that vLLM's own classes build with MLA."""
    has_experts: bool


def numbers(config: Fields, text: Fields, release: Release, *, mla_disabled: bool = False) -> Numbers:
    """The model-level numbers; `mla_disabled` is the environment's VLLM_MLA_DISABLE."""
    model_type = config.text("model_type") or ""
    heads = text.optional("num_attention_heads") or 0
    mla = is_mla_type(text, release)
    kv_heads = _kv_heads(model_type, text, release, heads)
    head_size = _head_size(model_type, text, release, heads, mla=mla, mla_disabled=mla_disabled)
    common = HeadShape(kv_heads, head_size)
    if _within(GEMMA4_MODEL_TYPES, model_type, release):
        per_layer = gemma4_shapes(text)
        if release.has(history.PER_LAYER_ARCHITECTURE):
            kv_heads = max((shape.kv_heads for shape in per_layer), default=kv_heads)
            head_size = max((shape.head_size for shape in per_layer), default=head_size)
        else:
            head_size = max((shape.head_size for shape in per_layer), default=head_size)
    elif release.has(history.PER_LAYER_ARCHITECTURE):
        per_layer = layer_shapes(text, common, _layers(model_type, text, release))
        kv_heads = max((shape.kv_heads for shape in per_layer), default=kv_heads)
        head_size = max((shape.head_size for shape in per_layer), default=head_size)
    return Numbers(
        num_layers=_layers(model_type, text, release),
        total_heads=heads,
        total_kv_heads=kv_heads,
        head_size=head_size,
        common=common,
        mla_listed=mla,
        has_experts=_experts(text) > 0,
    )


def uses_mla(
    found: Numbers, text: Fields, release: Release, *, wraps_transformers: bool, mla_disabled: bool = False
) -> bool:
    """Whether the model keeps latent rows (`ModelConfig.use_mla`)."""
    if mla_disabled:
        return False
    if wraps_transformers and release.has(history.TRANSFORMERS_BACKEND_USES_MLA):
        return "kv_lora_rank" in text
    if release.has(history.MLA_NEEDS_CAUSAL) and text.get("is_causal") is False:
        return False
    return found.mla_listed


def uses_mm_prefix(config: Fields, text: Fields, release: Release) -> bool:
    """Whether image tokens attend in both directions (`is_mm_prefix_lm`), as far as the config says."""
    model_type = config.text("model_type") or ""
    if _within(MM_PREFIX_BY_FIELD, model_type, release):
        return text.text("use_bidirectional_attention") == "vision"
    if release.has(history.MM_PREFIX_FROM_CONFIG) and "is_mm_prefix_lm" in config:
        return bool(config.get("is_mm_prefix_lm"))
    return _within(MM_PREFIX_MODEL_TYPES, model_type, release)


def is_mla_type(text: Fields, release: Release) -> bool:
    """Whether the text config's model type is in vLLM's MLA list and has the latent dimensions."""
    if not _within(MLA_MODEL_TYPES, text.text("model_type") or "", release):
        return False
    return "kv_lora_rank" in text


def gemma4_shapes(text: Fields) -> tuple[HeadShape, ...]:
    """KV heads and head size of each Gemma 4 layer.

    Transformers writes the layers that differ as `per_layer_config`. Files that it did not write say instead that
    full-attention layers take `global_head_dim`, and `num_global_key_value_heads` where keys serve as values.
    """
    count = text.whole("num_hidden_layers")
    common = HeadShape(text.whole("num_key_value_heads"), text.positive("head_dim"))
    overrides = text.section("per_layer_config")
    if overrides is not None:
        return tuple(_overridden(overrides, index, common) for index in range(count))
    types = text.per_layer("layer_types", count) or ()
    kv_heads = text.optional("num_global_key_value_heads") if text.get("attention_k_eq_v") else None
    full = HeadShape(kv_heads or common.kv_heads, text.optional("global_head_dim") or common.head_size)
    return tuple(full if kind == "full_attention" else common for kind in types[:count])


def layer_shapes(text: Fields, common: HeadShape, count: int) -> tuple[HeadShape, ...]:
    """KV heads and head size of each layer: `common` unless `per_layer_config` says otherwise."""
    overrides = text.section("per_layer_config")
    if overrides is None:
        return (common,) * count
    return tuple(_overridden(overrides, index, common) for index in range(count))


def _overridden(overrides: Fields, index: int, common: HeadShape) -> HeadShape:
    own = overrides.section(str(index))
    if own is None:
        return common
    return HeadShape(own.first("num_key_value_heads") or common.kv_heads, own.first("head_dim") or common.head_size)


def _within(table: dict[str, Span], key: str, release: Release) -> bool:
    span = table.get(key)
    return span is not None and release.within(span)


def _layers(model_type: str, text: Fields, release: Release) -> int:
    name = "num_hidden_layers"
    if model_type == "longcat_flash" and (release.has(history.LONGCAT_COUNTS_DECODER_LAYERS) or name not in text):
        name = "num_layers"
    count = text.optional(name) or 0
    if count > MOST_LAYERS:
        raise text.wrong(name, f"is {count}; no model has more than {MOST_LAYERS} layers")
    return count


def _kv_heads(model_type: str, text: Fields, release: Release, heads: int) -> int:
    if model_type in {"falcon", "RefinedWeb", "RefinedWebModel"}:
        if not text.get("new_decoder_architecture") and text.get("multi_query"):
            return 1
    elif model_type in {"dbrx", "mpt"}:
        attention = text.section("attn_config")
        return (attention.optional("kv_n_heads") if attention is not None else None) or heads
    elif model_type in {"mamba", "falcon_mamba"}:
        return 0
    elif model_type == "nemotron-nas":
        return next((heads // group for group in nas_groups(text) if group), heads)
    found = text.first(*KV_HEAD_NAMES)
    if found is None and release.has(history.KV_HEADS_FROM_ATTENTION_GROUPS):
        found = text.optional("num_attention_groups")
    return heads if found is None else found


def nas_groups(text: Fields) -> tuple[int | None, ...]:
    """Query heads per KV head of each Nemotron-NAS block, None for blocks without attention."""
    groups: list[int | None] = []
    for block in text.items("block_configs") or ():
        attention = block.get("attention") if isinstance(block, dict) else None
        if not isinstance(attention, dict):
            raise text.wrong("block_configs", "needs an 'attention' object in every block")
        group = None if attention.get("no_op") else attention.get("n_heads_in_group")
        groups.append(None if group is None else max(1, text.number("n_heads_in_group", group)))
    return tuple(groups)


def _head_size(model_type: str, text: Fields, release: Release, heads: int, *, mla: bool, mla_disabled: bool) -> int:
    if model_type in {"mamba", "falcon_mamba", "timm_wrapper"}:
        return 0
    if model_type == "zamba2":
        return text.optional("attention_head_dim") or 0
    if mla:
        rope = text.optional("qk_rope_head_dim") or 0
        nope = text.optional("qk_nope_head_dim") or 0
        if not mla_disabled:
            return text.whole("kv_lora_rank") + rope
        if rope and nope:
            return rope + nope
    head_dim = text.optional("head_dim")
    if head_dim is not None and (head_dim > 0 or not release.has(history.HEAD_DIM_ZERO_IS_ABSENT)):
        return head_dim
    own = text.optional("hidden_size_per_head")
    if own is not None:
        return own
    return (text.optional("hidden_size") or 0) // heads if heads else 0


def _experts(text: Fields) -> int:
    for name in EXPERT_NAMES:
        value = text.get(name)
        if isinstance(value, (list, tuple)):
            value = value[0] if value else 0
        if value is not None:
            found = text.number(name, value)
            return found or _block_experts(text)
    return _block_experts(text)


def _block_experts(text: Fields) -> int:
    blocks = text.items("block_configs") or ()
    return max(
        (
            text.number("n_routed_experts", block.get("n_routed_experts") or 0)
            for block in blocks
            if isinstance(block, dict) and block.get("block_type") == "moe"
        ),
        default=0,
    )
