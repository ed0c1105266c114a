"""PLaMo 2, of Mamba 2 mixers and attention, and PLaMo 3, of attention with windows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kvplan.engine.models import general, windows
from kvplan.engine.models.family import Family
from kvplan.engine.models.geometry import LayerGeometry, State
from kvplan.engine.models.recipe import named
from kvplan.engine.models.refusals import Refused
from kvplan.engine.models.states import attention_layer, mamba2, state_layer

if TYPE_CHECKING:
    from kvplan.engine.models.construction import Construction


def plamo2_state(made: Construction) -> State:
    """PLaMo 2: a Mamba 2 mixer without groups."""
    text = made.text
    heads, head_dim = text.positive("mamba_num_heads"), text.positive("hidden_size_per_head")
    built = mamba2(
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


def plamo3(made: Construction) -> tuple[LayerGeometry, ...]:
    """PLaMo 3: the config lists a window for each layer."""
    return general.uniform(made, windows.interleaved(made.text, made.count))


FAMILIES = (
    Family(
        name="plamo2",
        modules={"plamo2": named("model.layers.layers.{i}.mixer.attn")},
        layers=plamo2,
        state=plamo2_state,
    ),
    Family(name="plamo3", modules={"plamo3": named("model.layers.layers.{i}.mixer.attn")}, layers=plamo3),
)
