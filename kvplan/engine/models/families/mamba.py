"""Mixers in every layer and no attention: Mamba, Falcon-Mamba and Mamba 2."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvplan.engine.models.family import Family
from kvplan.engine.models.geometry import LayerGeometry, State, StateKind
from kvplan.engine.models.recipe import named
from kvplan.engine.models.states import mamba2, state_layer

if TYPE_CHECKING:
    from kvplan.engine.models.construction import Construction


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


def mamba2_state(made: Construction) -> State:
    """Mamba 2."""
    text = made.text
    return mamba2(
        made.release,
        width=text.positive("expand") * text.positive("hidden_size"),
        groups=text.whole("n_groups"),
        heads=text.positive("num_heads"),
        head_dim=text.positive("head_dim"),
        state_size=text.positive("state_size"),
        kernel=text.positive("conv_kernel"),
    )


def mamba_2(made: Construction) -> tuple[LayerGeometry, ...]:
    """Mamba 2: a mixer in every layer, no attention."""
    return _mixers(made, mamba2_state(made))


def _mixers(made: Construction, state: State) -> tuple[LayerGeometry, ...]:
    return tuple(state_layer(made, index, state, "backbone.layers.{i}.mixer") for index in range(made.count))


FAMILIES = (
    Family(
        name="mamba",
        modules={"mamba": named()},
        layers=mamba,
        state=mamba_state,
        caches_every_state=True,
    ),
    Family(
        name="mamba2",
        modules={"mamba2": named()},
        layers=mamba_2,
        state=mamba2_state,
        caches_every_state=True,
    ),
)
