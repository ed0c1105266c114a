"""Zamba 2: a Mamba 2 mixer in every layer, and a few attention blocks that layers share."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kvplan.engine.models.family import Family
from kvplan.engine.models.geometry import LayerGeometry, State
from kvplan.engine.models.recipe import named
from kvplan.engine.models.states import mamba2, state_layer, types_of, without_drafts_at_first

if TYPE_CHECKING:
    from kvplan.engine.models.construction import Construction


def zamba2_state(made: Construction) -> State:
    """Zamba 2 as its class says it: the head size in the config, which its layers do not use."""
    text = made.text
    return mamba2(
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
    types = types_of(made, "layers_block_type", "layer_types")
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
                    total_heads=made.numbers.total_heads,
                    total_kv_heads=made.numbers.total_heads,
                    head_size=size,
                )
            )
            number += 1
    for index in range(len(types)):
        built.append(state_layer(made, index, state, f"{len(hybrid) + index}.mixer"))
    return tuple(built)


FAMILIES = (
    Family(
        name="zamba2",
        modules={"zamba2": named()},
        layers=zamba2,
        state=without_drafts_at_first(zamba2_state),
        caches_every_state=True,
    ),
)
