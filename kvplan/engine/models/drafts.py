"""The layers that a draft for speculative decoding owns: MTP modules, EAGLE heads, DFlash and DSpark drafters.

A draft of these kinds is built beside the target, under the target's model config, on the last pipeline stage. Its
layers are numbered after the target's (so that skip tokens reach them by those numbers), but for families that
number them from 0. Sources: the `*_mtp`, `*_eagle*`, `*_dflash*` and `*_dspark*` modules of vLLM's model folder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from kvplan.engine.models import (
    arch_config,
    chunked,
    deepseek_v4,
    deepseek_v41,
    dots3_note,
    glm5_next,
    inkling,
    latent,
    mixed,
    qwen4_exp,
    registered,
    step5,
    windows,
)
from kvplan.engine.models.fields import Fields
from kvplan.engine.models.general import Construction
from kvplan.engine.models.geometry import LayerGeometry, ModelGeometry, Role
from kvplan.engine.models.recipes import DECODER, Recipe
from kvplan.engine.models.refusals import Refused, Unplaceable
from kvplan.engine.models.unplaceable import REASONS
from kvplan.history import models
from kvplan.history import speculation as history

if TYPE_CHECKING:
    from kvplan.checkpoint.values import Checkpoint
    from kvplan.releases import Release

NEXTN = ("num_nextn_predict_layers",)
OWN_LAYERS = ("num_hidden_layers",)


class Start(StrEnum):
    """How a draft numbers its layers."""

    ZERO = "zero"
    """From 0, whatever the target."""
    TARGET = "target"
    """After the last decoder layer of the target."""
    STAGE = "stage"
    """After as many layers as the draft's own pipeline stage has of the target."""
    TARGET_OR_STAGE = "target or stage"
    """After the target's, in older releases after those of the draft's own stage."""


@dataclass(frozen=True, slots=True)
class DraftRecipe:
    """How the layers of one draft module are built."""

    family: str = "general"
    """Which of `BUILDERS` does it."""
    layout: str = DECODER
    """Module prefix of draft layer `{i}`'s attention."""
    start: Start = Start.TARGET
    count: tuple[str, ...] = NEXTN
    """Fields of the draft's config with its number of layers; the first that is there counts."""
    default_count: int | None = None
    """What stands for a missing count; None where the model code needs the field."""
    since: str | None = None
    until: str | None = None


@dataclass(frozen=True, slots=True)
class DraftModel:
    """A draft's construction: the class, its config and the target it is built beside."""

    made: Construction
    recipe: DraftRecipe
    target: ModelGeometry
    stage_layers: int
    """Layers of the target on the draft's pipeline stage."""
    tokens: int
    """num_speculative_tokens."""

    @property
    def count(self) -> int:
        """Layers of the draft."""
        found = self.made.text.first(*self.recipe.count)
        if found is None:
            found = self.made.config.first(*self.recipe.count)
        if found is None:
            found = self.recipe.default_count
        if found is None:
            name = self.recipe.count[0]
            raise Refused(self.made.architecture, f"the config has no attribute '{name}'", "AttributeError", "layers")
        return found

    @property
    def start(self) -> int:
        """The number of the draft's first layer."""
        whole = self.target.num_layers
        match self.recipe.start:
            case Start.ZERO:
                return 0
            case Start.TARGET:
                return whole
            case Start.STAGE:
                return self.stage_layers
        return whole if self.made.release.has(history.DRAFT_NAMES_COUNT_WHOLE_TARGET) else self.stage_layers

    @property
    def indices(self) -> range:
        """The numbers of the draft's layers."""
        return range(self.start, self.start + self.count)


def supports_pipeline(checkpoint: Checkpoint, release: Release) -> bool:
    """Whether the draft's class has pipeline parallelism, which older releases ask of it too."""
    name = checkpoint.architectures[0] if checkpoint.architectures else ""
    entry = registered.lookup(name, release)
    return entry is None or entry.pipelines


def build(
    checkpoint: Checkpoint, release: Release, target: ModelGeometry, *, stage_layers: int, tokens: int
) -> tuple[LayerGeometry, ...]:
    """The layers of the draft whose rewritten config is `checkpoint`, with the role of a draft.

    Raises Refused where the release knows no such draft class, Unplaceable where kvplan cannot say which caches it
    has.
    """
    name = checkpoint.architectures[0] if checkpoint.architectures else ""
    entry = registered.lookup(name, release)
    if entry is None:
        raise Refused(name, f"Model architectures {list(checkpoint.architectures)} are not supported for now.")
    recipe = recipe_of(entry, release)
    if recipe is None:
        raise Unplaceable(name, REASONS["draft_unread"])
    config = Fields(checkpoint.config, checkpoint.file)
    text = Fields(checkpoint.text_config, checkpoint.file)
    made = Construction(
        release=release,
        architecture=name,
        source=name,
        entry=entry,
        recipe=Recipe(layout=recipe.layout),
        config=config,
        text=text,
        numbers=arch_config.numbers(config, text, release),
        use_mla=target.use_mla,
    )
    draft = DraftModel(made, recipe, target, stage_layers, tokens)
    layers = BUILDERS[recipe.family](draft)
    if any(layer.num_kv_heads == 0 or layer.head_size == 0 for layer in layers):
        raise Unplaceable(name, "its config does not give the heads of its layers and their size")
    return tuple(replace(layer, role=Role.DRAFT) for layer in layers)


def recipe_of(entry: registered.Entry, release: Release) -> DraftRecipe | None:
    """The recipe of a registered draft class in a release; None where its caches are not known."""
    rows = RECIPES.get(f"{entry.module}:{entry.class_name}") or RECIPES.get(entry.module) or ()
    return next((row for row in rows if release.within(row.since, row.until)), None)


def _attention(draft: DraftModel, index: int, window: int | None = None) -> LayerGeometry:
    """An ordinary attention layer of the draft's model-level heads."""
    numbers = draft.made.numbers
    return LayerGeometry(
        name=draft.made.name(index),
        index=index,
        num_heads=numbers.num_heads,
        num_kv_heads=numbers.num_kv_heads,
        head_size=numbers.head_size,
        sliding_window=window,
    )


def _general(draft: DraftModel) -> tuple[LayerGeometry, ...]:
    """Attention layers that pass no window."""
    return tuple(_attention(draft, index) for index in draft.indices)


def _layer_types(draft: DraftModel) -> tuple[LayerGeometry, ...]:
    """Attention layers that follow the draft's own `layer_types`, counted from its first layer."""
    passed = windows.by_layer_types(draft.made.text, draft.made.release, draft.count)
    return tuple(_attention(draft, index, passed[index - draft.start]) for index in draft.indices)


def _latent(draft: DraftModel) -> tuple[LayerGeometry, ...]:
    """Latent rows; sparse models' drafts always choose their top-k tokens themselves."""
    made = draft.made
    if not made.use_mla:
        return tuple(latent.unlike_mla(made, index) for index in draft.indices)
    sparse = "index_topk" in made.text
    dimensions = latent.dimensions_of(made.text, sparse=sparse)
    built: list[LayerGeometry] = []
    for index in draft.indices:
        if sparse:
            built.append(latent.indexer(made, index))
        built.append(replace(latent.row(made, index, dimensions), owns_indexer=sparse))
    return tuple(built)


def _dense_latent(draft: DraftModel) -> tuple[LayerGeometry, ...]:
    """Latent rows without an indexer."""
    dimensions = latent.dimensions_of(draft.made.text, sparse=False)
    return tuple(latent.row(draft.made, index, dimensions) for index in draft.indices)


def _longcat(draft: DraftModel) -> tuple[LayerGeometry, ...]:
    """LongCat-Flash: one latent layer, numbered after both attentions of every decoder layer."""
    decoders = draft.made.text.first("num_layers", "num_hidden_layers") or 0
    dimensions = latent.dimensions_of(draft.made.text, sparse=False)
    return (latent.row(draft.made, 2 * decoders, dimensions),)


def _hy_v4(draft: DraftModel) -> tuple[LayerGeometry, ...]:
    """HY-V4: a layer beyond `layer_types` is like the last one in it."""
    text = draft.made.text
    types = text.items("layer_types") or ()
    words = latent.sparse_words(draft.made.release)
    sinks = bool(text.get("learnable_sink"))
    built: list[LayerGeometry] = []
    for index in draft.indices:
        kind = types[min(index, len(types) - 1)] if types else None
        sparse = "index_topk" in text and kind in words
        if sparse:
            built.append(latent.indexer(draft.made, index))
        built.append(latent.row(draft.made, index, latent.dimensions_of(text, sparse=sparse), sinks=sinks))
    return tuple(built)


def _mimo_v2(draft: DraftModel) -> tuple[LayerGeometry, ...]:
    """MiMo-V2: one layer like the target's sliding ones; vLLM builds only the first."""
    text = draft.made.text
    window = text.optional("sliding_window_size")
    narrow = draft.made.release.has(models.MIMO_V2_STORES_NARROW_VALUES)
    return (
        LayerGeometry(
            name=draft.made.name(0),
            index=0,
            num_heads=text.whole("swa_num_attention_heads"),
            num_kv_heads=text.whole("swa_num_key_value_heads"),
            head_size=text.positive("swa_head_dim"),
            head_size_v=text.optional("swa_v_head_dim") if narrow else None,
            sliding_window=window or None,
            has_sinks=bool(text.get("add_swa_attention_sink_bias")),
            brings_value_backend=narrow,
            reads_cache_config=draft.made.release.has(models.MIMO_V2_READS_CACHE_CONFIG),
        ),
    )


def _v4_window(draft: DraftModel) -> tuple[LayerGeometry, ...]:
    """DeepSeek-V4: the latent rows of the last tokens; its MTP layers compress nothing."""
    return tuple(deepseek_v4.window(draft.made, index) for index in draft.indices)


def _nemotron_h(draft: DraftModel) -> tuple[LayerGeometry, ...]:
    """Nemotron-H: the attention layers (`*`) of `mtp_hybrid_override_pattern`, numbered from 0."""
    text = draft.made.text
    pattern = text.get("mtp_hybrid_override_pattern")
    if pattern is None:
        words = {"attention": "*", "moe": "E", "mamba": "M"}
        pattern = "".join(words.get(str(kind), "?") for kind in text.items("mtp_layers_block_type") or ())
    if not isinstance(pattern, str) or not pattern:
        raise text.wrong("mtp_hybrid_override_pattern", "is missing; the MTP layers are built from it")
    return tuple(_attention(draft, index) for index, kind in enumerate(pattern) if kind == "*")


def _exaone_moe(draft: DraftModel) -> tuple[LayerGeometry, ...]:
    """EXAONE-MoE: a layer follows the target's layer of the same number, or lists of its own."""
    text, release = draft.made.text, draft.made.release
    own = release.has(history.EXAONE_MTP_HAS_OWN_WINDOWS)
    types = (text.items("mtp_layer_types") if own else None) or text.items("layer_types") or ()
    listed = (text.items("mtp_sliding_windows") if own else None) or text.items("sliding_windows")
    built = []
    for index in draft.indices:
        window = None
        if index < len(types) and types[index] != "full_attention":
            value = listed[index] if listed is not None and own and index < len(listed) else text.get("sliding_window")
            window = None if value is None else text.number("sliding_window", value) or None
        built.append(_attention(draft, index, window))
    return tuple(built)


def _step3p5(draft: DraftModel) -> tuple[LayerGeometry, ...]:
    """Step 3.5: `layer_types` goes on past the decoder layers."""
    text = draft.made.text
    own = text.items("mtp_layer_types")
    if not own and "per_layer_config" in text and draft.made.release.has(history.STEP_MTP_NEEDS_OWN_TYPES):
        raise Refused(draft.made.architecture, "a model must have at least one layer")
    types = [*(text.items("layer_types") or ()), *(own or ())]
    window = windows.config_window(text, draft.made.release)
    if types and draft.indices.stop > len(types):
        raise Refused(draft.made.architecture, "list index out of range", "IndexError", "layers")
    kv_heads = text.first("num_attention_groups", "num_key_value_heads") or draft.made.numbers.num_kv_heads
    return tuple(
        replace(
            _attention(draft, index, window if index < len(types) and types[index] == windows.SLIDING else None),
            num_kv_heads=kv_heads,
        )
        for index in draft.indices
    )


def _minimax_m3(draft: DraftModel) -> tuple[LayerGeometry, ...]:
    """MiniMax-M3: modules numbered from 0, all of them sparse."""
    sparse = draft.made.text.section("sparse_attention_config")
    if sparse is None:
        return _general(draft)
    built: list[LayerGeometry] = []
    for index in draft.indices:
        layer = _attention(draft, index)
        built.append(mixed.minimax_m3_indexer(layer, sparse, Role.ATTENTION))
        built.append(
            replace(
                layer, layer_class="MiniMaxM3SparseAttention", own_backend="MINIMAX_M3_SPARSE", reads_skip_list=False
            )
        )
    return tuple(built)


def _gemma4(draft: DraftModel) -> tuple[LayerGeometry, ...]:
    """Gemma 4 assistants: every layer reads the cache of the target's last owner of its kind, and owns none."""
    text, release = draft.made.text, draft.made.release
    count = draft.count
    passed = windows.by_layer_types(text, release, count)
    shapes = arch_config.gemma4_shapes(text)
    owners = [layer for layer in draft.target.layers if layer.shares_cache_of is None]
    built = []
    for index in range(count):
        sliding = passed[index] is not None
        alike = [layer.name for layer in owners if (layer.sliding_window is not None) is sliding]
        built.append(
            replace(
                _attention(draft, index, passed[index]),
                num_kv_heads=shapes[index].kv_heads,
                head_size=shapes[index].head_size,
                shares_cache_of=alike[-1] if alike else None,
            )
        )
    return tuple(built)


def _gemma4_dspark(draft: DraftModel) -> tuple[LayerGeometry, ...]:
    """Gemma 4 DSpark: full and sliding layers of two shapes, with caches of their own."""
    passed = windows.by_layer_types(draft.made.text, draft.made.release, draft.count)
    shapes = arch_config.gemma4_shapes(draft.made.text)
    return tuple(
        replace(
            _attention(draft, index, passed[index]),
            num_kv_heads=shapes[index].kv_heads,
            head_size=shapes[index].head_size,
        )
        for index in draft.indices
    )


def _dflash(draft: DraftModel) -> tuple[LayerGeometry, ...]:
    """DFlash: `layer_types`, or `use_swa` of dflash_config for all layers alike."""
    text = draft.made.text
    own = text.section("dflash_config")
    use_swa = bool(own is not None and own.get("use_swa"))
    types = text.items("layer_types")
    sliding = [kind == windows.SLIDING for kind in types or ()]
    if types is None or (use_swa and not any(sliding)):
        sliding = [use_swa] * draft.count
    window = own.optional("swa_window_size") if own is not None else None
    if window is None and not isinstance(text.get("sliding_window"), (list, tuple)):
        window = text.optional("sliding_window")
    if not draft.made.release.has(history.DFLASH_SLIDES):
        sliding = [False] * draft.count
    if 0 < sum(sliding) < len(sliding) and not draft.made.release.has(history.DFLASH_MAY_MIX):
        raise Refused(
            draft.made.architecture,
            "DFlash does not yet support mixed sliding/full attention via layer_types",
            "NotImplementedError",
            "layers",
        )
    if any(sliding) and window is None:
        raise Refused(
            draft.made.architecture,
            "DFlash sliding attention requires a window size configured in dflash_config.swa_window_size or the "
            "top-level sliding_window.",
            "ValueError",
            "layers",
        )
    return tuple(
        _attention(draft, index, window if (sliding[position] if position < len(sliding) else False) else None)
        for position, index in enumerate(draft.indices)
    )


def _none(_: DraftModel) -> tuple[LayerGeometry, ...]:
    """A draft without attention."""
    return ()


BUILDERS: Mapping[str, Callable[[DraftModel], tuple[LayerGeometry, ...]]] = {
    "dense_latent": _dense_latent,
    "deepseek_v4_dspark": deepseek_v4.dspark,
    "deepseek_v41_dspark": deepseek_v41.dspark,
    "dflash": _dflash,
    "dots3_note": dots3_note.dots3_note_mtp,
    "exaone_moe": _exaone_moe,
    "gemma4": _gemma4,
    "gemma4_dspark": _gemma4_dspark,
    "general": _general,
    "glm5_next": glm5_next.glm5_next_mtp,
    "hy_v4": _hy_v4,
    "inkling": inkling.inkling_mtp,
    "latent": _latent,
    "layer_types": _layer_types,
    "llama4": chunked.llama4_eagle,
    "longcat": _longcat,
    "mimo_v2": _mimo_v2,
    "v4_window": _v4_window,
    "minimax_m3": _minimax_m3,
    "nemotron_h": _nemotron_h,
    "none": _none,
    "qwen4_exp": qwen4_exp.qwen4_exp_mtp,
    "step3p5": _step3p5,
    "step5": step5.step5_mtp,
}
"""By the `family` of a draft's recipe."""


def _mtp(family: str = "general", layout: str = DECODER) -> tuple[DraftRecipe, ...]:
    return (DraftRecipe(family, layout),)


def _own(family: str = "layer_types", start: Start = Start.TARGET_OR_STAGE) -> tuple[DraftRecipe, ...]:
    """A draft with a config of its own."""
    return (DraftRecipe(family, DECODER, start, OWN_LAYERS),)


def _from_zero(layout: str, *count: str, family: str = "general", default_count: int = 1) -> tuple[DraftRecipe, ...]:
    return (DraftRecipe(family, layout, Start.ZERO, count, default_count),)


_MTP_LAYER = "mtp.layers.{i}.self_attn.attn"

RECIPES: Mapping[str, tuple[DraftRecipe, ...]] = {
    # MTP modules numbered after the target's layers.
    "bailing_moe_mtp": _mtp("dense_latent"),
    "bailing_moe_v3_mtp": _mtp("dense_latent"),
    "deepseek_mtp": _mtp("latent"),
    "deepseek_v4_mtp": _mtp("v4_window", "model.layers.{i}.attn"),
    "ernie_mtp": _mtp(),
    "glm4_moe_lite_mtp": _mtp("latent"),
    "glm4_moe_mtp": _mtp(),
    "glm_ocr_mtp": _mtp(),
    "hy_v3_mtp": _mtp(),
    "longcat_flash_mtp": _mtp("longcat"),
    "mimo_mtp": _mtp(),
    "models.deepseek_v32": _mtp("latent"),
    "models.deepseek_v4:DeepSeekV4MTP": _mtp("v4_window", "model.layers.{i}.attn"),
    "models.dots3_note": _mtp("dots3_note"),
    "models.glm5next": _mtp("glm5_next"),
    "models.hy_v4": _mtp("hy_v4"),
    "models.kimi_k3": _mtp("dense_latent"),
    "models.qwen4_exp": (DraftRecipe("qwen4_exp", _MTP_LAYER, count=("mtp_num_hidden_layers",), default_count=1),),
    "models.step5": _mtp("step5", "model.layers.{i}.mtp_block.self_attn.attn"),
    "openpangu_mtp": _mtp("latent"),
    "step3p5_mtp": (DraftRecipe("step3p5", "model.layers.{i}.mtp_block.self_attn.attn"),),
    # MTP modules numbered from 0.
    "exaone4_5_mtp": _from_zero(_MTP_LAYER, *NEXTN, family="layer_types"),
    "exaone_moe_mtp": _from_zero(_MTP_LAYER, *NEXTN, family="exaone_moe"),
    "interns2_mobius": _from_zero(_MTP_LAYER, "mtp_num_hidden_layers"),
    "mimo_v2_mtp": _from_zero("model.mtp.layers.{i}.self_attn.attn", *NEXTN, family="mimo_v2"),
    "models.inkling": _from_zero("model.layers.{i}.transformer_block.attn", *NEXTN, family="inkling"),
    "models.minimax_m3": _from_zero(DECODER, "num_mtp_modules", family="minimax_m3"),
    "nemotron_h_mtp": _from_zero("mtp.layers.{i}.mixer.attn", *NEXTN, family="nemotron_h"),
    "nemotron_parse3_5_mtp": _from_zero(DECODER, family="none"),
    "qwen3_5_mtp": _from_zero(_MTP_LAYER, "mtp_num_hidden_layers"),
    "qwen3_next_mtp": _from_zero(_MTP_LAYER, *NEXTN),
    # EAGLE heads.
    "cohere_eagle": _own(start=Start.STAGE),
    "deepseek_eagle": _own("latent", Start.STAGE),
    "deepseek_eagle3": _own("dense_latent"),
    "llama4_eagle": _own("llama4", Start.STAGE),
    "llama_eagle": _own("general", Start.STAGE),
    "llama_eagle3": _own(),
    "minicpm_eagle": (DraftRecipe("general", "model.eagle_layers.{i}.self_attn.attn", Start.STAGE, OWN_LAYERS),),
    "mistral_eagle": _own("general", Start.STAGE),
    "mistral_large_3_eagle": _own("latent", Start.STAGE),
    "qwen3_eagle3": _own(),
    # Drafters of a block of tokens.
    "laguna_dflash": _own("general"),
    "lilicorr": _own("dflash"),
    "models.beam": _own("layer_types", Start.TARGET),
    "models.deepseek_v4:DSparkDeepseekV4ForCausalLM": _mtp("deepseek_v4_dspark", "model.layers.{i}.attn"),
    "models.deepseek_v41": _mtp("deepseek_v41_dspark", "model.layers.{i}.attn"),
    "models.kimi_k3.nvidia.dspark_mla": _own("dense_latent", Start.TARGET),
    "models.muse_spark.common.dspark": _own("dflash", Start.TARGET),
    "qwen3_dflash": _own("dflash"),
    "qwen3_dflash2": _own("dflash"),
    "qwen3_dspark": _own("dflash"),
    "qwen3_xpress": _own("dflash", Start.STAGE),
    "gemma4_dspark": _from_zero(DECODER, *OWN_LAYERS, family="gemma4_dspark"),
    # Assistants that read the target's caches.
    "gemma4_mtp": _from_zero("draft_model.layers.{i}.self_attn.attn", *OWN_LAYERS, family="gemma4"),
}
"""By module (below vLLM's model folder)."""
