"""MiniMax-Text-01 and M1: lightning attention beside attention."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvplan.engine.models.family import Family
from kvplan.engine.models.geometry import LayerGeometry
from kvplan.engine.models.recipe import named
from kvplan.engine.models.states import attention_layer, lightning, state_layer

if TYPE_CHECKING:
    from kvplan.engine.models.construction import Construction


def minimax_text(made: Construction) -> tuple[LayerGeometry, ...]:
    """MiniMax-Text-01 and M1: lightning attention, marked 0 in a list, beside attention, marked 1."""
    marks = made.text.per_layer("attn_type_list", made.count) or made.text.per_layer(
        "decoder_attention_types", made.count
    )
    if marks is None:
        types = made.text.per_layer("layer_types", made.count)
        marks = [1] * made.count if types is None else [int(kind == "full_attention") for kind in types]
    state = lightning(made)
    return tuple(
        state_layer(made, index, state, "model.layers.{i}", layer_class="MiniMaxText01LinearAttention")
        if marks[index] == 0
        else attention_layer(made, index, head_size=state.head_dim)
        for index in range(made.count)
    )


FAMILIES = (
    Family(
        name="minimax_text",
        modules={"minimax_text_01": named("model.layers.{i}.attn")},
        layers=minimax_text,
        state=lightning,
    ),
)
