"""Mamba 2 mixers with attention in some layers or beside them in all: Bamba, Granite 4, Falcon-H1."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvplan.engine.models.family import Family
from kvplan.engine.models.geometry import LayerGeometry, State
from kvplan.engine.models.recipe import named
from kvplan.engine.models.states import (
    STATE_WORDS,
    attention_layer,
    by_types,
    mamba_fields,
    split_head,
    state_layer,
    types_of,
    without_drafts_at_first,
)

if TYPE_CHECKING:
    from kvplan.engine.models.construction import Construction


def bamba_state(made: Construction) -> State:
    """Bamba and Granite 4."""
    return mamba_fields(made, made.text.positive("mamba_expand") * made.text.positive("hidden_size"))


def bamba(made: Construction) -> tuple[LayerGeometry, ...]:
    """Bamba: mixers and attention under one name scheme."""
    state = bamba_state(made)
    return by_types(
        made,
        types_of(made, "layers_block_type", "layer_types"),
        lambda index: attention_layer(made, index, head_size=split_head(made)),
        lambda index: state_layer(made, index, state, "model.layers.{i}.mixer"),
        "layers_block_type",
    )


def granite_hybrid(made: Construction) -> tuple[LayerGeometry, ...]:
    """Granite 4: mixers and attention without positions; some of its models are attention throughout."""
    types = types_of(made, "layer_types", "layers_block_type")
    state = bamba_state(made) if any(kind in STATE_WORDS for kind in types) else None

    def mixer(index: int) -> LayerGeometry:
        assert state is not None
        return state_layer(made, index, state, "model.layers.{i}.mixer")

    return by_types(made, types, lambda index: attention_layer(made, index), mixer, "layer_types")


def falcon_h1_state(made: Construction) -> State:
    """Falcon-H1."""
    text = made.text
    width = text.optional("mamba_d_ssm")
    if width is None:
        width = text.positive("mamba_expand") * text.positive("hidden_size")
    return mamba_fields(made, width)


def falcon_h1(made: Construction) -> tuple[LayerGeometry, ...]:
    """Falcon-H1: every layer has attention and, under a number of its own, a mixer."""
    state = falcon_h1_state(made)
    built = []
    for index in range(made.count):
        built.append(attention_layer(made, index))
        built.append(state_layer(made, index, state, f"model.{made.count + index}.mixer"))
    return tuple(built)


FAMILIES = (
    Family(
        name="bamba",
        modules={"bamba": named("model.layers.{i}.attn")},
        layers=bamba,
        state=without_drafts_at_first(bamba_state),
        caches_every_state=True,
    ),
    Family(
        name="granite_hybrid",
        modules={"granitemoehybrid": named()},
        layers=granite_hybrid,
        state=without_drafts_at_first(bamba_state),
        caches_every_state=True,
    ),
    Family(
        name="falcon_h1",
        modules={"falcon_h1": named("model.layers.{i}.attn")},
        layers=falcon_h1,
        state=without_drafts_at_first(falcon_h1_state),
        caches_every_state=True,
    ),
)
