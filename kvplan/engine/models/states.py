"""What families with recurrent states have in common, beside attention or alone.

State layers are registered in the order of the decoder layers, between the attention layers, unless said otherwise.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kvplan.engine.models.geometry import Kind, LayerGeometry, Role, State, StateDtype, StateKind
from kvplan.history import state as history

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kvplan.engine.models.construction import Construction
    from kvplan.releases import Release, Span

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
        custom_backend=backend or BACKENDS[state.kind],
        reads_skip_list=False,
        state=state,
    )


def attention_layer(made: Construction, index: int, *, head_size: int | None = None) -> LayerGeometry:
    """Ordinary full attention of decoder layer `index`, with the model-level heads."""
    return LayerGeometry(
        name=made.name(index),
        index=index,
        total_heads=made.numbers.total_heads,
        total_kv_heads=made.numbers.total_kv_heads,
        head_size=made.numbers.head_size if head_size is None else head_size,
    )


def split_head(made: Construction) -> int:
    """Head size of classes that divide the hidden size by the heads, whatever the config's head_dim says."""
    return made.text.whole("hidden_size") // made.numbers.total_heads if made.numbers.total_heads else 0


def types_of(made: Construction, *names: str) -> Sequence[Any]:
    """The type of each layer, from the first of the fields `names` that is there."""
    for name in names:
        types = made.text.per_layer(name, made.count)
        if types is not None:
            return types[: made.count]
    raise made.text.wrong(names[0], "is missing; it must name the type of each layer")


def by_types(
    made: Construction,
    types: Sequence[Any],
    attention: Callable[[int], LayerGeometry],
    states: Callable[[int], LayerGeometry],
    field: str,
) -> tuple[LayerGeometry, ...]:
    """A layer of attention or of states for each of `types`, which stand in `field`."""
    built = []
    for index, kind in enumerate(types):
        if kind in ATTENTION_WORDS:
            built.append(attention(index))
        elif kind in STATE_WORDS:
            built.append(states(index))
        else:
            raise made.text.wrong(field, f"names the layer type {str(kind)[:40]!r}, which this model does not have")
    return tuple(built)


def mamba2(
    release: Release, *, width: int, groups: int, heads: int, head_dim: int, state_size: int, kernel: int
) -> State:
    """The state of a Mamba 2 mixer."""
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


def mamba_fields(made: Construction, width: int) -> State:
    """The `mamba_` fields that Bamba brought in."""
    text = made.text
    return mamba2(
        made.release,
        width=width,
        groups=text.whole("mamba_n_groups"),
        heads=text.positive("mamba_n_heads"),
        head_dim=text.positive("mamba_d_head"),
        state_size=text.positive("mamba_d_state"),
        kernel=text.positive("mamba_d_conv"),
    )


def kda(release: Release, heads: int, head_dim: int, kernel: int) -> State:
    """The state of Kimi delta attention."""
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


def lightning(made: Construction) -> State:
    """Lightning attention with the model's own heads."""
    return State(
        kind=StateKind.LINEAR,
        heads=made.numbers.total_heads,
        head_dim=made.text.optional("head_dim") or split_head(made),
        recurrent=StateDtype.AS_CONVOLUTION,
    )


def without_drafts_at_first(state: Callable[[Construction], State]) -> Callable[[Construction], State]:
    """Classes that leave the columns of speculative tokens out of the state that blocks are aligned to."""

    def build(made: Construction) -> State:
        counted = made.release.has(history.MAMBA2_MODELS_COUNT_DRAFTS)
        return state(made) if counted else replace(state(made), counts_drafts=False)

    return build


def class_in(release: Release, rows: tuple[tuple[Span, str], ...]) -> str:
    """The name that a class has in `release`; `rows` has one for every span."""
    return next(name for span, name in rows if release.within(span))
