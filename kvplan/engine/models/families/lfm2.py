"""LFM2: short convolutions beside attention."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kvplan.engine.models.family import Family
from kvplan.engine.models.geometry import LayerGeometry, State, StateKind
from kvplan.engine.models.recipe import named, wraps
from kvplan.engine.models.refusals import Refused
from kvplan.engine.models.states import attention_layer, by_types, split_head, state_layer, types_of
from kvplan.engine.models.towers import ASSERTING
from kvplan.history import state as history

if TYPE_CHECKING:
    from kvplan.engine.models.construction import Construction

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
        stage = "options" if early else "layers"
        raise Refused(made.architecture, message, "AttributeError", stage, late=early)
    return State(kind=StateKind.CONVOLUTION, kernel=text.positive("conv_L_cache"), width=width)


def lfm2(made: Construction) -> tuple[LayerGeometry, ...]:
    """LFM2: short convolutions beside attention."""
    state = _convolution(made, own_width=made.entry.module in _OWN_WIDTH)
    if made.release.has(history.SHORT_CONVOLUTION_COUNTS_DRAFTS):
        state = replace(state, counts_drafts=True)
    name = "short_conv" if made.release.has(history.SHORT_CONVOLUTION_RENAMED) else "conv"
    return by_types(
        made,
        types_of(made, "layer_types"),
        lambda index: attention_layer(made, index, head_size=split_head(made)),
        lambda index: state_layer(made, index, state, made.recipe.layout.replace("self_attn.attn", name)),
        "layer_types",
    )


FAMILIES = (
    Family(
        name="lfm2",
        modules={
            "colbert:ColBERTLfm2Model": named(".layers.{i}.self_attn.attn"),
            "lfm2": named(),
            "lfm2_moe": named(),
            "lfm2_vl": wraps(prefix="language"),
        },
        layers=lfm2,
        state=lfm2_state,
        towers={"lfm2_vl": ASSERTING},
    ),
)
