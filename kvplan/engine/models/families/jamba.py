"""Jamba: Mamba 1 mixers and attention."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvplan.engine.models.family import Family
from kvplan.engine.models.geometry import LayerGeometry, State, StateKind
from kvplan.engine.models.recipe import named
from kvplan.engine.models.states import attention_layer, by_types, split_head, state_layer, types_of

if TYPE_CHECKING:
    from kvplan.engine.models.construction import Construction


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
    return by_types(
        made,
        types_of(made, "layers_block_type", "layer_types"),
        lambda index: attention_layer(made, index, head_size=split_head(made)),
        lambda index: state_layer(made, index, state, "model.layers.{i}.mixer"),
        "layers_block_type",
    )


FAMILIES = (
    Family(
        name="jamba",
        modules={"jamba": named("model.layers.{i}.attn")},
        layers=jamba,
        state=jamba_state,
        caches_every_state=True,
    ),
)
