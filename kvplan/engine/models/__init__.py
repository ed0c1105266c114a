"""What the model code of a vLLM release builds from a config: the attention layers and the model-level numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kvplan.engine.models import (
    arch_config,
    contracts,
    encoders,
    families,
    needed,
    pooling,
    registered,
    resolve,
    rotations,
    stages,
    windows,
)
from kvplan.engine.models.by_name import VISION_CLASSES
from kvplan.engine.models.construction import Construction
from kvplan.engine.models.families.general import GENERAL
from kvplan.engine.models.families.wrapper import FILLED_IN, NAMED_BY_TEXT, WRAPPER
from kvplan.engine.models.fields import Fields
from kvplan.engine.models.geometry import Kind, LayerGeometry, ModelGeometry
from kvplan.engine.models.numbers import KnownNumbers
from kvplan.engine.models.recipe import Recipe
from kvplan.engine.models.refusals import Refused, Unplaceable
from kvplan.engine.models.towers import towers
from kvplan.engine.models.unplaceable import REASONS
from kvplan.history import models as history

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kvplan.checkpoint.values import Checkpoint
    from kvplan.engine.models.family import Family
    from kvplan.releases import Release

DEFAULT_STATE_CHUNK = 2048
"""Tokens of a chunk where the config of a model with state layers does not say."""

__all__ = ["ModelGeometry", "Refused", "Unplaceable", "build"]


def build(
    checkpoint: Checkpoint,
    release: Release,
    *,
    runner: str = "auto",
    convert: str = "auto",
    model_impl: str = "auto",
    mla_disabled: bool = False,
    prefix: str = "",
    pooler: Mapping[str, Any] | None = None,
    indexer_dtype: str = "auto",
    datacenter_blackwell: bool = True,
) -> ModelGeometry:
    """The layers and model-level numbers of `checkpoint` in `release`.

    `runner`, `convert` and `model_impl` are the options of those names, `mla_disabled` the environment's
    VLLM_MLA_DISABLE; `prefix` is where the model hangs in the module tree, `pooler` what `--pooler-config` says,
    `indexer_dtype` what `--attention-config` asks of the indexers' key caches,
    `datacenter_blackwell` says whether the GPU's compute capability is 10.x.
    Raises Refused where vLLM itself stops on the model, Unplaceable where kvplan cannot say which caches it has,
    InputError where the config lacks what its class reads.
    """
    config = Fields(checkpoint.config, checkpoint.file)
    text = Fields(checkpoint.text_config, checkpoint.file)
    found = arch_config.numbers(config, text, release, mla_disabled=mla_disabled)
    nested = checkpoint.text_config is not checkpoint.config
    resolved = resolve.resolve(
        _architectures(checkpoint, release),
        release,
        moe=found.has_experts,
        nested=nested,
        runner=runner,
        convert=convert,
        model_impl=model_impl,
    )
    entry = resolved.entry
    contracts.check(resolved.architecture, config, text, release)
    use_mla = arch_config.uses_mla(
        found, text, release, wraps_transformers=entry.wraps_transformers, mla_disabled=mla_disabled
    )
    family, recipe = families.of(entry, release)
    made = Construction(
        release=release,
        architecture=resolved.architecture,
        source=resolved.source,
        entry=entry,
        recipe=recipe,
        config=config,
        text=text,
        numbers=found,
        use_mla=use_mla,
        prefix=prefix,
        indexer_dtype=indexer_dtype,
        datacenter_blackwell=datacenter_blackwell,
    )
    try:
        innermost, inner = _innermost(made, family)
        needed.check(innermost)
        layers = _layers(innermost, inner)
        rotations.check(innermost, layers)
    except (Refused, Unplaceable) as stopped:
        if isinstance(stopped, Refused):
            stopped.towers = tuple(tower for tower in towers(made, family.towers) if not tower.late)
        stopped.numbers = KnownNumbers(
            architecture=resolved.architecture,
            total_heads=found.total_heads,
            total_kv_heads=found.total_kv_heads,
            use_mla=use_mla,
            is_moe=found.has_experts,
            multimodal=entry.multimodal,
            supports_pipeline=entry.pipelines,
            spreads_hidden_states=family.spreads_hidden_states,
            takes_adapters=registered.takes_adapters(entry.architecture, release),
            runner_type=resolved.runner_type,
        )
        raise
    mm_prefix = arch_config.uses_mm_prefix(config, text, release)
    layers_mm_prefix = mm_prefix
    if nested and innermost is not made and release.has(history.MM_PREFIX_LOST_IN_WRAPPED_MODEL):
        layers_mm_prefix = arch_config.uses_mm_prefix(text, text, release)
    hybrid = entry.hybrid and not _all_attention(config, release)
    attention = pooling.attention_type(
        entry,
        resolved.runner_type,
        config,
        causal=pooling.is_causal(resolved.architecture, config, text, release),
        hybrid=hybrid,
    )
    pooled = (entry, resolved.runner_type, attention, pooler or {})
    window = None if innermost.recipe.clears_window else windows.model_window(text, release)
    return ModelGeometry(
        architecture=resolved.architecture,
        num_layers=found.num_layers * inner.layers_of_one,
        total_heads=found.total_heads,
        total_kv_heads=found.total_kv_heads,
        head_size=found.head_size,
        use_mla=use_mla,
        is_moe=found.has_experts,
        takes_adapters=registered.takes_adapters(entry.architecture, release),
        multimodal=entry.multimodal,
        is_hybrid=hybrid,
        runner_type=resolved.runner_type,
        attention=attention,
        never_shares_prefixes=inner.never_shares_prefixes,
        prefills_in_parts=pooling.prefills_in_parts(*pooled),
        shares_prefixes=pooling.shares_prefixes(*pooled),
        supports_pipeline=entry.pipelines,
        lacks_plans=_lacks_plans(made, checkpoint.model_type),
        pipelines_unnamed_part=_hands_on_unnamed(made),
        uses_mm_prefix=layers_mm_prefix,
        model_sliding_window=window,
        mm_prefix_item_tokens=_item_tokens(made, inner, checkpoint) if mm_prefix else None,
        has_inner_state=entry.hybrid or entry.attention_free,
        state=inner.state(innermost) if inner.state is not None and (hybrid or entry.attention_free) else None,
        state_chunk=text.first("mamba_chunk_size", "chunk_size") or DEFAULT_STATE_CHUNK,
        caches_every_state=recipe.wraps is None and family.caches_every_state,
        replays_states=recipe.wraps is None and _replays_states(family, release),
        logits_soft_cap=bool(text.get("attn_logit_softcapping")),
        is_diffusion=config.get("canvas_length") is not None,
        uses_rswa=config.get("rswa_window") is not None or any(layer.kind is Kind.RSWA for layer in layers),
        encoder=encoders.beside_states(innermost, layers) if layers else encoders.first(innermost),
        backend_by_head_sizes=inner.backend_by_head_sizes,
        spreads_hidden_states=family.spreads_hidden_states,
        cache_format=inner.cache_format,
        family=inner.name,
        towers=towers(made, family.towers),
        layers=layers,
        stage_needs=stages.needs(made, innermost),
    )


def _lacks_plans(made: Construction, model_type: str) -> frozenset[str]:
    asked = made.entry.wraps_transformers and made.release.has(history.TRANSFORMERS_BACKEND_NEEDS_PLANS)
    return registered.lacks_plans(model_type) if asked else frozenset()


def _replays_states(family: Family, release: Release) -> bool:
    return family.replays_states is not None and release.within(family.replays_states)


def _architectures(checkpoint: Checkpoint, release: Release) -> tuple[str, ...]:
    """The names in the config, after what vLLM rewrites before it resolves them."""
    sees = VISION_CLASSES.get(checkpoint.model_type) if checkpoint.config.get("vision_config") else None
    if sees is None or registered.lookup(sees, release) is None:
        return checkpoint.architectures
    return (sees,)


def _item_tokens(outer: Construction, inner: Family, checkpoint: Checkpoint) -> int | None:
    """Tokens of the largest multimodal item, where the processor can be asked (audio needs its files)."""
    count = inner.largest_item_tokens
    if count is None or (outer.config.section("audio_config") is not None and not checkpoint.has_processor):
        return None
    return count(outer)


def _innermost(made: Construction, family: Family) -> tuple[Construction, Family]:
    """The class that builds the decoder layers, and its family: `made` itself, or the language model that it wraps."""
    recipe = made.recipe
    if recipe.wraps is None:
        return made, family
    names = _inner_names(made)
    resolved = resolve.inner(names, made.release, moe=made.numbers.has_experts) if names else None
    place = made.place(recipe.wraps) if recipe.wraps else made.prefix
    if resolved is None:
        return replace(made, recipe=Recipe(), prefix=place), WRAPPER
    family, inner = families.of(resolved.entry, made.release)
    if inner.wraps is not None:
        family, inner = GENERAL, Recipe()
    innermost = replace(
        made,
        architecture=resolved.architecture,
        source=resolved.source,
        entry=resolved.entry,
        recipe=inner,
        config=made.text,
        prefix=place,
    )
    return innermost, family


_UNNAMED = "No model architectures are specified"


def _inner_names(made: Construction) -> tuple[str, ...]:
    """Architecture names of the wrapped language model."""
    if made.recipe.architecture is not None:
        return (made.recipe.architecture,)
    named = tuple(made.text.strings("architectures"))
    if named:
        return named
    model_type = made.text.text("model_type") or ""
    filled = FILLED_IN.get(made.entry.module, {}).get(model_type)
    if filled is not None:
        return (filled,)
    causal = _causal(made)
    if causal is None and made.entry.module in NAMED_BY_TEXT:
        none = made.release.has(history.UNNAMED_PART_IS_NONE)
        raise Refused(
            made.architecture,
            "'NoneType' object is not iterable" if none else _UNNAMED,
            "TypeError" if none else "ValueError",
            "layers",
            "architectures of the language model's own section",
            in_stages=("ValidationError", _UNNAMED) if made.release.has(history.PARTS_ARE_VERIFIED) else None,
        )
    return (causal,) if causal is not None else ()


def _causal(made: Construction) -> str | None:
    """The class that stands in for the one a language model's section does not name."""
    if not made.release.has(history.TEXT_ARCHITECTURE_FROM_MODEL_TYPE):
        return None
    return registered.causal_class(made.text.text("model_type") or "")


def _hands_on_unnamed(made: Construction) -> bool:
    """Whether the class makes a config of its language model's section that ends up without an architecture."""
    named = next(made.text.strings("architectures"), None) or _causal(made)
    return made.recipe.unnamed and made.release.has(history.PARTS_ARE_VERIFIED) and named is None


def _layers(made: Construction, family: Family) -> tuple[LayerGeometry, ...]:
    kind = made.entry.kind
    if encoders.is_encoder(made):
        return ()
    if kind in REASONS:
        raise Unplaceable(made.architecture, REASONS[kind])
    if pooling.keeps_nothing(made):
        return ()
    layers = family.layers(made)
    if any(layer.total_kv_heads == 0 or layer.head_size == 0 for layer in layers if layer.kind is not Kind.STATE):
        raise Unplaceable(made.architecture, "its config does not give the heads of its layers and their size")
    if not layers and not made.entry.wraps_transformers:
        raise Unplaceable(made.architecture, "its config does not say how many layers it has")
    return layers


def _all_attention(config: Fields, release: Release) -> bool:
    """Whether a hybrid architecture's `layer_types` are attention throughout, in the words the release knows."""
    types = config.items("layer_types")
    words = {"attention"}
    if release.has(history.FULL_ATTENTION_HYBRID_IS_PLAIN):
        words.add("full_attention")
    return types is not None and all(kind in words for kind in types)
