"""Cosmos 3 Edge: a dense decoder that vLLM builds as a Nemotron-H of attention and feed-forward layers in turn."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kvplan.engine.models import general
from kvplan.engine.models.family import Family
from kvplan.engine.models.geometry import LayerGeometry
from kvplan.engine.models.recipe import named
from kvplan.engine.models.towers import ASSERTING, whole_on_request

if TYPE_CHECKING:
    from kvplan.engine.models.construction import Construction

LAYERS_OF_ONE = 2
"""Layers of Nemotron-H that one decoder layer becomes: its attention, and its feed-forward layer."""


def cosmos3_edge(made: Construction) -> tuple[LayerGeometry, ...]:
    """The attention layers, under every second number."""
    return tuple(
        replace(layer, name=made.name(number), index=number)
        for layer in general.layers(made)
        for number in (LAYERS_OF_ONE * layer.index,)
    )


FAMILIES = (
    Family(
        name="cosmos3_edge",
        modules={"cosmos3_edge": named("language_model.model.layers.{i}.mixer.attn")},
        layers=cosmos3_edge,
        layers_of_one=LAYERS_OF_ONE,
        towers={"cosmos3_edge": whole_on_request(ASSERTING)},
    ),
)
