"""Qwen2 and Qwen3 and what derives from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvplan.engine.models import general
from kvplan.engine.models.family import Family
from kvplan.engine.models.geometry import LayerGeometry
from kvplan.engine.models.recipe import named
from kvplan.engine.models.refusals import Refused

if TYPE_CHECKING:
    from kvplan.engine.models.construction import Construction


def qwen(made: Construction) -> tuple[LayerGeometry, ...]:
    """Layers pass no window, and not all kinds of layer_types will do."""
    types = made.text.items("layer_types") or ()
    limit = made.text.optional("max_window_layers")
    if len(set(map(str, types))) > 1 and limit != made.count:
        raise Refused(
            made.architecture,
            "Sliding window for some but all layers is not supported. This model uses sliding window but "
            f"`max_window_layers` = {limit} is less than `num_hidden_layers` = {made.count}.",
            "AssertionError",
            "layers",
        )
    return general.layers(made)


FAMILIES = (Family(name="qwen", modules={"qwen2": named(), "qwen3": named()}, layers=qwen),)
