"""Models whose layers keep recurrent states, beside attention or alone.

State layers are registered in the order of the decoder layers, between the attention layers, unless said otherwise.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kvplan.engine.models import latent
from kvplan.engine.models.geometry import Kind, LayerGeometry, Role, State, StateDtype, StateKind
from kvplan.engine.models.refusals import Refused
from kvplan.history import state as history

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kvplan.engine.models.fields import Fields
    from kvplan.engine.models.general import Construction
    from kvplan.releases import Release

BACKENDS = {
    StateKind.MAMBA1: "MAMBA1_ATTN",
    StateKind.MAMBA2: "MAMBA2_ATTN",
    StateKind.DELTA: "GDN_ATTN",
    StateKind.KDA: "GDN_ATTN",
    StateKind.CONVOLUTION: "SHORT_CONV_ATTN",
    StateKind.LINEAR: "LINEAR_ATTN",
}
"""Backend of the layers that keep each kind of state."""

CLASSES = {
    StateKind.MAMBA1: "MambaMixer",
    StateKind.MAMBA2: "MambaMixer2",
    StateKind.CONVOLUTION: "ShortConv",
}

ATTENTION_WORDS = frozenset({"attention", "full_attention"})
STATE_WORDS = frozenset({"mamba", "linear_attention", "conv"})


def state_layer(
    made: Construction,
    index: int,
    state: State,
    path: str,
    *,
    layer_class: str | None = None,
    backend: str | None = None,
) -> LayerGeometry:
    """The state of decoder layer `index`, at `path` below the model."""
    return LayerGeometry(
        name=made.place(path.replace("{i}", str(index))),
        index=index,
        kind=Kind.STATE,
        role=Role.STATE,
        layer_class=layer_class or CLASSES[state.kind],
        own_backend=backend or BACKENDS[state.kind],
        reads_skip_list=False,
        state=state,
    )


def attention_layer(made: Construction, index: int, *, head_size: int | None = None) -> LayerGeometry:
    """Ordinary full attention of decoder layer `index`, with the model-level heads."""
    return LayerGeometry(
        name=made.name(index),
        index=index,
        num_heads=made.numbers.num_heads,
        num_kv_heads=made.numbers.num_kv_heads,
        head_size=made.numbers.head_size if head_size is None else head_size,
    )


def _split_head(made: Construction) -> int:
    """Head size of classes that divide the hidden size by the heads, whatever the config's head_dim says."""
    return made.text.whole("hidden_size") // made.numbers.num_heads if made.numbers.num_heads else 0


def _types(made: Construction, *names: str) -> Sequence[Any]:
    for name in names:
        types = made.text.per_layer(name, made.count)
        if types is not None:
            return types[: made.count]
    raise made.text.wrong(names[0], "is missing; it must name the type of each layer")


def _mixed(
    made: Construction,
    types: Sequence[Any],
    attention: Callable[[int], LayerGeometry],
    states: Callable[[int], LayerGeometry],
    field: str,
) -> tuple[LayerGeometry, ...]:
    built = []
    for index, kind in enumerate(types):
        if kind in ATTENTION_WORDS:
            built.append(attention(index))
        elif kind in STATE_WORDS:
            built.append(states(index))
        else:
            raise made.text.wrong(field, f"names the layer type {str(kind)[:40]!r}, which this model does not have")
    return tuple(built)


# --- Mamba 1 ----------------------------------------------------------------------------------------------


def mamba_state(made: Construction) -> State:
    """Mamba and Falcon-Mamba."""
    text = made.text
    return State(
        kind=StateKind.MAMBA1,
        kernel=text.positive("conv_kernel"),
        width=text.positive("intermediate_size"),
        state_size=text.positive("state_size"),
    )


def mamba(made: Construction) -> tuple[LayerGeometry, ...]:
    """Mamba and Falcon-Mamba: a mixer in every layer, no attention."""
    return _mixers(made, mamba_state(made))


def _mixers(made: Construction, state: State) -> tuple[LayerGeometry, ...]:
    return tuple(state_layer(made, index, state, "backbone.layers.{i}.mixer") for index in range(made.count))


def jamba_state(made: Construction) -> State:
    """Jamba."""
    text = made.text
    return State(
        kind=StateKind.MAMBA1,
        kernel=text.positive("mamba_d_conv"),
        width=text.positive("mamba_expand") * text.positive("hidden_size"),
        state_size=text.positive("mamba_d_state"),
    )


def jamba(made: Construction) -> tuple[LayerGeometry, ...]:
    """Jamba: one attention layer in eight."""
    state = jamba_state(made)
    return _mixed(
        made,
        _types(made, "layers_block_type", "layer_types"),
        lambda index: attention_layer(made, index, head_size=_split_head(made)),
        lambda index: state_layer(made, index, state, "model.layers.{i}.mixer"),
        "layers_block_type",
    )


# --- Mamba 2 ----------------------------------------------------------------------------------------------


def _mamba2(
    release: Release, *, width: int, groups: int, heads: int, head_dim: int, state_size: int, kernel: int
) -> State:
    return State(
        kind=StateKind.MAMBA2,
        kernel=kernel,
        width=width,
        groups=groups,
        heads=heads,
        head_dim=head_dim,
        state_size=state_size,
        counts_drafts=release.has(history.MAMBA2_CONVOLUTION_COUNTS_DRAFTS),
        checkpoints=True,
    )


def mamba2_state(made: Construction) -> State:
    """Mamba 2."""
    text = made.text
    return _mamba2(
        made.release,
        width=text.positive("expand") * text.positive("hidden_size"),
        groups=text.whole("n_groups"),
        heads=text.positive("num_heads"),
        head_dim=text.positive("head_dim"),
        state_size=text.positive("state_size"),
        kernel=text.positive("conv_kernel"),
    )


def mamba2(made: Construction) -> tuple[LayerGeometry, ...]:
    """Mamba 2: a mixer in every layer, no attention."""
    return _mixers(made, mamba2_state(made))


def _mamba_fields_state(made: Construction, width: int) -> State:
    """The `mamba_` fields that Bamba brought in."""
    text = made.text
    return _mamba2(
        made.release,
        width=width,
        groups=text.whole("mamba_n_groups"),
        heads=text.positive("mamba_n_heads"),
        head_dim=text.positive("mamba_d_head"),
        state_size=text.positive("mamba_d_state"),
        kernel=text.positive("mamba_d_conv"),
    )


def bamba_state(made: Construction) -> State:
    """Bamba and Granite 4."""
    return _mamba_fields_state(made, made.text.positive("mamba_expand") * made.text.positive("hidden_size"))


def bamba(made: Construction) -> tuple[LayerGeometry, ...]:
    """Bamba: mixers and attention under one name scheme."""
    state = bamba_state(made)
    return _mixed(
        made,
        _types(made, "layers_block_type", "layer_types"),
        lambda index: attention_layer(made, index, head_size=_split_head(made)),
        lambda index: state_layer(made, index, state, "model.layers.{i}.mixer"),
        "layers_block_type",
    )


def granite_hybrid(made: Construction) -> tuple[LayerGeometry, ...]:
    """Granite 4: mixers and attention without positions; some of its models are attention throughout."""
    types = _types(made, "layer_types", "layers_block_type")
    state = bamba_state(made) if any(kind in STATE_WORDS for kind in types) else None

    def mixer(index: int) -> LayerGeometry:
        assert state is not None
        return state_layer(made, index, state, "model.layers.{i}.mixer")

    return _mixed(made, types, lambda index: attention_layer(made, index), mixer, "layer_types")


def falcon_h1_state(made: Construction) -> State:
    """Falcon-H1."""
    text = made.text
    width = text.optional("mamba_d_ssm")
    if width is None:
        width = text.positive("mamba_expand") * text.positive("hidden_size")
    return _mamba_fields_state(made, width)


def falcon_h1(made: Construction) -> tuple[LayerGeometry, ...]:
    """Falcon-H1: every layer has attention and, under a number of its own, a mixer."""
    state = falcon_h1_state(made)
    built = []
    for index in range(made.count):
        built.append(attention_layer(made, index))
        built.append(state_layer(made, index, state, f"model.{made.count + index}.mixer"))
    return tuple(built)


def nemotron_h_state(made: Construction) -> State:
    """Nemotron-H and Nemotron 3."""
    text = made.text
    heads, head_dim = text.positive("mamba_num_heads"), text.positive("mamba_head_dim")
    return _mamba2(
        made.release,
        width=heads * head_dim,
        groups=text.whole("n_groups"),
        heads=heads,
        head_dim=head_dim,
        state_size=text.positive("ssm_state_size"),
        kernel=text.positive("conv_kernel"),
    )


def nemotron_h(made: Construction) -> tuple[LayerGeometry, ...]:
    """Nemotron-H: a pattern of mixers (M), attention (*), and layers without a cache (- and E)."""
    pattern = made.text.text("hybrid_override_pattern")
    if pattern is None:
        raise made.text.wrong("hybrid_override_pattern", "is missing; Nemotron-H needs a letter for each layer")
    state = nemotron_h_state(made)
    built = []
    for index, letter in enumerate(pattern):
        if letter == "*":
            built.append(attention_layer(made, index))
        elif letter == "M":
            built.append(state_layer(made, index, state, "model.layers.{i}.mixer"))
    return tuple(built)


def zamba2_state(made: Construction) -> State:
    """Zamba 2 as its class says it: the head size in the config, which its layers do not use."""
    text = made.text
    return _mamba2(
        made.release,
        width=text.positive("mamba_expand") * text.positive("hidden_size"),
        groups=text.whole("mamba_ngroups"),
        heads=text.positive("n_mamba_heads"),
        head_dim=text.positive("mamba_headdim"),
        state_size=text.positive("mamba_d_state"),
        kernel=text.positive("mamba_d_conv"),
    )


def zamba2(made: Construction) -> tuple[LayerGeometry, ...]:
    """Zamba 2: a mixer in every layer; hybrid layers share the weights of a few attention blocks, not their caches.

    All attention is registered first, block by block. Each block numbers its caches from where an even share of the
    hybrid layers would begin.
    """
    types = _types(made, "layers_block_type", "layer_types")
    hybrid = [index for index, kind in enumerate(types) if kind == "hybrid"]
    blocks = made.text.positive("num_mem_blocks")
    size = made.text.positive("attention_head_dim")
    state = zamba2_state(made)
    state = replace(state, head_dim=state.width // state.heads)
    built = []
    for block in range(blocks):
        number = block * (len(hybrid) + blocks - 1) // blocks
        for position in range(block, len(hybrid), blocks):
            built.append(
                LayerGeometry(
                    name=made.place(f"model.attn.{number}"),
                    index=hybrid[position],
                    num_heads=made.numbers.num_heads,
                    num_kv_heads=made.numbers.num_heads,
                    head_size=size,
                )
            )
            number += 1
    for index in range(len(types)):
        built.append(state_layer(made, index, state, f"{len(hybrid) + index}.mixer"))
    return tuple(built)


def plamo2_state(made: Construction) -> State:
    """PLaMo 2: a Mamba 2 mixer without groups."""
    text = made.text
    heads, head_dim = text.positive("mamba_num_heads"), text.positive("hidden_size_per_head")
    built = _mamba2(
        made.release,
        width=heads * head_dim,
        groups=0,
        heads=heads,
        head_dim=head_dim,
        state_size=text.positive("mamba_d_state"),
        kernel=text.positive("mamba_d_conv"),
    )
    return replace(built, counts_drafts=False, checkpoints=False)


def plamo2(made: Construction) -> tuple[LayerGeometry, ...]:
    """PLaMo 2: one attention layer in every `mamba_step`."""
    state, step, count = plamo2_state(made), made.text.whole("mamba_step"), made.count
    if step <= 1:
        raise Refused(made.architecture, "", "AssertionError", "layers")
    built = []
    for index in range(count):
        last = count <= step // 2
        mixes = index != count - 1 if last else index % step != step // 2
        if mixes:
            built.append(
                state_layer(made, index, state, "model.layers.layers.{i}.mixer", layer_class="Plamo2MambaMixer")
            )
        else:
            built.append(attention_layer(made, index, head_size=made.text.positive("hidden_size_per_head")))
    return tuple(built)


# --- gated delta nets -------------------------------------------------------------------------------------

_QWEN_CLASSES: tuple[tuple[str | None, str | None, str], ...] = (
    (None, "0.18.1", "Qwen3NextGatedDeltaNet"),
    ("0.19.1", "0.21.0", "GatedDeltaNetAttention"),
    ("0.22.1", None, "QwenGatedDeltaNetAttention"),
)
_OLMO_CLASSES: tuple[tuple[str | None, str | None, str], ...] = (
    (None, "0.21.0", "OlmoHybridGatedDeltaNet"),
    ("0.22.1", None, "OlmoHybridGatedDeltaNetAttention"),
)


def _class_in(release: Release, rows: tuple[tuple[str | None, str | None, str], ...]) -> str:
    return next(name for since, until, name in rows if release.within(since, until))


def delta_state(made: Construction) -> State:
    """Qwen3-Next, Qwen3.5 and OLMo Hybrid."""
    text = made.text
    dtype = StateDtype.OPTION if made.release.has(history.DELTA_STATE_DTYPE_OPTION) else StateDtype.AS_CONVOLUTION
    return State(
        kind=StateKind.DELTA,
        kernel=text.positive("linear_conv_kernel_dim"),
        heads=text.positive("linear_num_value_heads"),
        head_dim=text.positive("linear_value_head_dim"),
        key_heads=text.positive("linear_num_key_heads"),
        key_dim=text.positive("linear_key_head_dim"),
        counts_drafts=True,
        recurrent=dtype,
        checkpoints=made.entry.module != "olmo_hybrid",
    )


def delta(made: Construction) -> tuple[LayerGeometry, ...]:
    """Gated delta nets beside gated attention."""
    olmo = made.entry.module == "olmo_hybrid"
    state = delta_state(made)
    path = made.recipe.layout.replace("self_attn.attn", "linear_attn")
    layer_class = _class_in(made.release, _OLMO_CLASSES if olmo else _QWEN_CLASSES)
    size = _split_head(made) if olmo else None
    return _mixed(
        made,
        _types(made, "layer_types"),
        lambda index: attention_layer(made, index, head_size=size),
        lambda index: state_layer(made, index, state, path, layer_class=layer_class),
        "layer_types",
    )


# --- Kimi delta attention ---------------------------------------------------------------------------------

_KIMI_CLASSES: tuple[tuple[str | None, str | None, str], ...] = (
    (None, "0.21.0", "KimiDeltaAttention"),
    ("0.22.1", None, "KimiGatedDeltaNetAttention"),
)


def _kda(release: Release, heads: int, head_dim: int, kernel: int) -> State:
    merged = release.has(history.KDA_CONVOLUTION_MERGED)
    return State(
        kind=StateKind.KDA,
        kernel=kernel,
        heads=heads,
        head_dim=head_dim,
        counts_drafts=release.has(history.KDA_CONVOLUTION_COUNTS_DRAFTS),
        recurrent=StateDtype.FLOAT32,
        split_convolution=not merged,
    )


def _kimi_section(made: Construction) -> Fields:
    section = made.text.section("linear_attn_config")
    if section is None:
        raise made.text.wrong("linear_attn_config", "is missing; Kimi Linear needs it")
    return section


def kimi_state(made: Construction) -> State:
    """Kimi Linear and Kimi K3 as their class says it."""
    linear = _kimi_section(made)
    state = _kda(
        made.release,
        linear.positive("num_heads"),
        linear.positive("head_dim"),
        linear.positive("short_conv_kernel_size"),
    )
    if made.release.has(history.KDA_STATE_DTYPE_OPTION):
        return replace(state, recurrent=StateDtype.FLOAT32_OR_OPTION)
    return state


def kimi(made: Construction) -> tuple[LayerGeometry, ...]:
    """Kimi Linear and Kimi K3: KDA beside multi-head latent attention."""
    linear = made.text.section("linear_attn_config")
    numbers = set(linear.items("kda_layers") or ()) if linear is not None else set()
    own_latent = made.release.has(history.KIMI_LATENT_LAYER_IS_MODEL_CODE)
    if made.text.get("mla_use_nope") is not True and len(numbers) < made.count:
        raise Refused(made.architecture, "", "AssertionError", "layers")
    state = kimi_state(made) if numbers else None
    own_delta = linear is not None and bool(linear.get("use_full_rank_gate")) and own_latent
    dimensions = latent.dimensions_of(made.text, sparse=False)
    built = []
    for index in range(made.count):
        if index + 1 in numbers and state is not None and linear is not None:
            built.append(_kimi_delta(made, index, state, linear if own_delta else None))
            continue
        row = latent.row(made, index, dimensions)
        if own_latent:
            row = replace(
                row,
                name=row.name.removesuffix(".attn"),
                layer_class="MultiHeadLatentAttention",
                reads_skip_list=False,
            )
        built.append(row)
    return tuple(built)


def _kimi_delta(made: Construction, index: int, state: State, own: Fields | None) -> LayerGeometry:
    """A KDA layer: Kimi K3's own class (with its section of the config), or Kimi Linear's."""
    path = made.recipe.layout.removesuffix(".attn")
    if own is None:
        state = replace(state, recurrent=StateDtype.FLOAT32)
        return state_layer(made, index, state, path, layer_class=_class_in(made.release, _KIMI_CLASSES))
    state = replace(state, checkpoints="gate_lower_bound" in own)
    return state_layer(made, index, state, path, layer_class="KimiK3DeltaAttention", backend="KIMI_K3_KDA")


def bailing_v3_state(made: Construction) -> State:
    """Bailing 3 (Ring, Ling)."""
    text = made.text
    return _kda(
        made.release,
        made.numbers.num_heads,
        text.positive("head_dim"),
        text.positive("short_conv_kernel_size"),
    )


def bailing_v3(made: Construction) -> tuple[LayerGeometry, ...]:
    """Bailing 3: KDA, and latent attention at the end of every group of layers."""
    size = made.text.positive("layer_group_size")
    grouped = made.count // size * size
    state = bailing_v3_state(made)
    dimensions = latent.dimensions_of(made.text, sparse=False)
    return tuple(
        latent.row(made, index, dimensions)
        if (index + 1) % size == 0 or index >= grouped
        else state_layer(made, index, state, "model.layers.{i}.self_attn", layer_class="BailingMoeV3KimiDeltaAttention")
        for index in range(made.count)
    )


def alice_state(made: Construction) -> State:
    """AliceAI."""
    text = made.text
    return _kda(
        made.release,
        text.positive("linear_num_key_heads"),
        text.positive("linear_key_head_dim"),
        text.positive("linear_conv_kernel_dim"),
    )


def alice(made: Construction) -> tuple[LayerGeometry, ...]:
    """AliceAI: KDA beside gated attention."""
    state = alice_state(made)
    return _mixed(
        made,
        _types(made, "layer_types"),
        lambda index: attention_layer(made, index),
        lambda index: state_layer(
            made, index, state, "model.layers.{i}.linear_attn", layer_class="KimiGatedDeltaNetAttention"
        ),
        "layer_types",
    )


# --- short convolution and linear attention ---------------------------------------------------------------


_OWN_WIDTH = frozenset({"colbert", "lfm2"})
"""Modules whose short convolutions take their width from `conv_dim`."""


def lfm2_state(made: Construction) -> State:
    """LFM2 as its class says it: LFM2-MoE and LFM2-VL by the model's width, LFM2 by a field of its own."""
    return _convolution(made, own_width=made.entry.module in _OWN_WIDTH and not made.prefix)


def _convolution(made: Construction, *, own_width: bool) -> State:
    text = made.text
    width = text.optional("conv_dim" if own_width else "hidden_size")
    if width is None:
        early = made.release.has(history.HYBRID_BLOCK_AT_CONFIG_TIME)
        message = "'Lfm2Config' object has no attribute 'conv_dim'"
        raise Refused(made.architecture, message, "AttributeError", "options" if early else "layers")
    return State(kind=StateKind.CONVOLUTION, kernel=text.positive("conv_L_cache"), width=width)


def lfm2(made: Construction) -> tuple[LayerGeometry, ...]:
    """LFM2: short convolutions beside attention."""
    state = _convolution(made, own_width=made.entry.module in _OWN_WIDTH)
    if made.release.has(history.SHORT_CONVOLUTION_COUNTS_DRAFTS):
        state = replace(state, counts_drafts=True)
    name = "short_conv" if made.release.has(history.SHORT_CONVOLUTION_RENAMED) else "conv"
    return _mixed(
        made,
        _types(made, "layer_types"),
        lambda index: attention_layer(made, index, head_size=_split_head(made)),
        lambda index: state_layer(made, index, state, made.recipe.layout.replace("self_attn.attn", name)),
        "layer_types",
    )


def linear_state(made: Construction) -> State:
    """Lightning attention with the model's own heads."""
    return State(
        kind=StateKind.LINEAR,
        heads=made.numbers.num_heads,
        head_dim=made.text.optional("head_dim") or _split_head(made),
        recurrent=StateDtype.AS_CONVOLUTION,
    )


def minimax(made: Construction) -> tuple[LayerGeometry, ...]:
    """MiniMax-Text-01 and M1: lightning attention, marked 0 in a list, beside attention, marked 1."""
    marks = made.text.per_layer("attn_type_list", made.count) or made.text.per_layer(
        "decoder_attention_types", made.count
    )
    if marks is None:
        types = made.text.per_layer("layer_types", made.count)
        marks = [1] * made.count if types is None else [int(kind == "full_attention") for kind in types]
    state = linear_state(made)
    return tuple(
        state_layer(made, index, state, "model.layers.{i}", layer_class="MiniMaxText01LinearAttention")
        if marks[index] == 0
        else attention_layer(made, index, head_size=state.head_dim)
        for index in range(made.count)
    )


def bailing_v2_5(made: Construction) -> tuple[LayerGeometry, ...]:
    """Bailing 2.5: lightning attention, and latent attention at the end of every group of layers."""
    if "use_bias" not in made.text:
        # Its code reads the field from whatever config class the checkpoint brings; not all have it.
        message = "'BailingHybridConfig' object has no attribute 'use_bias'"
        raise Refused(made.architecture, message, "AttributeError", "layers")
    size = made.text.optional("layer_group_size")
    size = 1 if size is None else size
    state = linear_state(made)
    dimensions = latent.dimensions_of(made.text, sparse=False)
    backend = "BAILING_LINEAR_ATTN" if made.release.has(history.BAILING_LINEAR_BACKEND) else None
    name = "BailingMoELinearAttention"
    return tuple(
        state_layer(made, index, state, "model.layers.{i}.self_attn", layer_class=name, backend=backend)
        if size > 0 and (index + 1) % size != 0
        else latent.row(made, index, dimensions)
        for index in range(made.count)
    )


def _counted_later(state: Callable[[Construction], State]) -> Callable[[Construction], State]:
    """Classes that leave the columns of speculative tokens out of the state that blocks are aligned to."""

    def build(made: Construction) -> State:
        counted = made.release.has(history.MAMBA2_MODELS_COUNT_DRAFTS)
        return state(made) if counted else replace(state(made), counts_drafts=False)

    return build


STATES: dict[str, Callable[[Construction], State]] = {
    "alice_ai": alice_state,
    "bailing_v2_5": linear_state,
    "bailing_v3": bailing_v3_state,
    "bamba": _counted_later(bamba_state),
    "delta": delta_state,
    "falcon_h1": _counted_later(falcon_h1_state),
    "granite_hybrid": _counted_later(bamba_state),
    "jamba": jamba_state,
    "kimi": kimi_state,
    "lfm2": lfm2_state,
    "mamba": mamba_state,
    "mamba2": mamba2_state,
    "minimax_text": linear_state,
    "nemotron_h": nemotron_h_state,
    "plamo2": plamo2_state,
    "zamba2": _counted_later(zamba2_state),
}
"""By family: the state that the class itself reports (`get_mamba_state_shape_from_config`)."""

CACHES_EVERY_STATE = frozenset(
    {
        "BambaForCausalLM",
        "FalconH1ForCausalLM",
        "GraniteMoeHybridForCausalLM",
        "JambaForCausalLM",
        "JambaForSequenceClassification",
        "Mamba2ForCausalLM",
        "MambaForCausalLM",
        "NemotronHForCausalLM",
        "Zamba2ForCausalLM",
    }
)
"""Classes with `SupportsMambaPrefixCaching`."""

REPLAYS_STATES: dict[str, tuple[str | None, str | None]] = {
    "NemotronHForCausalLM": ("0.27.1", None),
    "KimiLinearForCausalLM": ("0.29.0", None),
    "KimiK3ForConditionalGeneration": ("0.29.0", None),
}
"""Classes with `SupportsReplaySSM`, with the releases."""
