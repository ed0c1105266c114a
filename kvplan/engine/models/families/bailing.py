"""Bailing (Ring, Ling) with recurrent states: 2.5 with lightning attention, 3 with Kimi delta attention."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kvplan.engine.models import latent
from kvplan.engine.models.drafting import DraftRecipe
from kvplan.engine.models.family import Family
from kvplan.engine.models.geometry import LayerGeometry, State
from kvplan.engine.models.recipe import named, wraps
from kvplan.engine.models.refusals import Refused
from kvplan.engine.models.states import kda, lightning, state_layer
from kvplan.history import state as history

if TYPE_CHECKING:
    from kvplan.engine.models.construction import Construction


def bailing_v2_5(made: Construction) -> tuple[LayerGeometry, ...]:
    """Bailing 2.5: lightning attention, and latent attention at the end of every group of layers."""
    if "use_bias" not in made.text:
        # Its code reads the field from whatever config class the checkpoint brings; not all have it.
        message = "'BailingHybridConfig' object has no attribute 'use_bias'"
        raise Refused(made.architecture, message, "AttributeError", "layers")
    size = made.text.optional("layer_group_size")
    size = 1 if size is None else size
    state = lightning(made)
    dimensions = latent.dimensions_of(made.text, sparse=False)
    backend = "BAILING_LINEAR_ATTN" if made.release.has(history.BAILING_LINEAR_BACKEND) else None
    name = "BailingMoELinearAttention"
    groups = made.text.optional("group_norm_size")
    groups = 1 if groups is None else groups
    return tuple(
        replace(
            state_layer(made, index, state, "model.layers.{i}.self_attn", layer_class=name, backend=backend),
            norm_groups=groups,
        )
        if size > 0 and (index + 1) % size != 0
        else latent.row(made, index, dimensions)
        for index in range(made.count)
    )


def bailing_v3_state(made: Construction) -> State:
    """Bailing 3 (Ring, Ling)."""
    text = made.text
    return kda(
        made.release,
        made.numbers.total_heads,
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


FAMILIES = (
    Family(
        name="bailing_v2_5",
        modules={"bailing_moe_linear": named()},
        layers=bailing_v2_5,
        drafts={"bailing_moe_mtp": DraftRecipe(latent.dense_draft)},
        state=lightning,
    ),
    Family(
        name="bailing_v3",
        modules={"bailing_moe_v3": named(), "bailing_moe_v3_vl": wraps("BailingMoeV3ForCausalLM")},
        layers=bailing_v3,
        drafts={"bailing_moe_v3_mtp": DraftRecipe(latent.dense_draft)},
        state=bailing_v3_state,
    ),
)
