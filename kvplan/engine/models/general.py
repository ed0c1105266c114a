"""The general rule: one attention layer a decoder layer, of the model-level heads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvplan.engine.models import windows
from kvplan.engine.models.by_name import HEADS_SHARE_WIDTH
from kvplan.engine.models.geometry import LayerGeometry
from kvplan.engine.models.recipe import Windows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvplan.engine.models.construction import Construction


def layers(made: Construction) -> tuple[LayerGeometry, ...]:
    """The layers of a decoder that follows the general rule."""
    return uniform(made, layer_windows(made))


def uniform(
    made: Construction,
    passed: Sequence[int | None],
    *,
    kv_heads: int | None = None,
    head_size: int | None = None,
    sinks: Sequence[bool] | None = None,
) -> tuple[LayerGeometry, ...]:
    """Attention layers alike but for the window each passes (and its sinks)."""
    found = made.numbers
    heads = found.total_heads
    kv = found.total_kv_heads if kv_heads is None else kv_heads
    size = _head_size(made) if head_size is None else head_size
    return tuple(
        LayerGeometry(
            name=made.name(index),
            index=index,
            total_heads=heads,
            total_kv_heads=kv,
            head_size=size,
            sliding_window=passed[index],
            has_sinks=sinks is not None and sinks[index],
        )
        for index in range(made.count)
    )


def _head_size(made: Construction) -> int:
    """Elements of a head: what the config says, or an equal share of the hidden size where the class does not ask."""
    span = HEADS_SHARE_WIDTH.get(made.entry.module)
    width = made.text.optional("hidden_size")
    if span is None or not span.covers(made.release.acts_as) or not width or not made.numbers.total_heads:
        return made.numbers.head_size
    return width // made.numbers.total_heads


def layer_windows(made: Construction) -> tuple[int | None, ...]:
    """The windows that the layers of `made` pass, by its recipe."""
    if made.recipe.windows is Windows.LAYER_TYPES:
        return windows.by_layer_types(made.text, made.release, made.count)
    if made.recipe.windows is Windows.INTERLEAVED:
        return windows.interleaved(made.text, made.count)
    return (None,) * made.count
