"""AliceAI: Kimi delta attention beside gated attention."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvplan.engine.models.family import Family
from kvplan.engine.models.geometry import LayerGeometry, State
from kvplan.engine.models.pooling import attends_both_ways
from kvplan.engine.models.recipe import named
from kvplan.engine.models.states import attention_layer, by_types, kda, state_layer, types_of

if TYPE_CHECKING:
    from kvplan.engine.models.construction import Construction


def alice_state(made: Construction) -> State:
    """AliceAI."""
    text = made.text
    return kda(
        made.release,
        text.positive("linear_num_key_heads"),
        text.positive("linear_key_head_dim"),
        text.positive("linear_conv_kernel_dim"),
    )


def alice(made: Construction) -> tuple[LayerGeometry, ...]:
    """AliceAI: KDA beside gated attention."""
    state = alice_state(made)
    built = by_types(
        made,
        types_of(made, "layer_types"),
        lambda index: attention_layer(made, index),
        lambda index: state_layer(
            made, index, state, "model.layers.{i}.linear_attn", layer_class="KimiGatedDeltaNetAttention"
        ),
        "layer_types",
    )
    return tuple(layer for layer in built if layer.state is not None) if attends_both_ways(made) else built


FAMILIES = (Family(name="alice_ai", modules={"alice_ai": named()}, layers=alice, state=alice_state),)
