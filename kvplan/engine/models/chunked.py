"""Llama 4: most layers attend within chunks of the text; the layers without rotary positions see all of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kvplan.engine.models import general
from kvplan.engine.models.geometry import Kind, LayerGeometry

if TYPE_CHECKING:
    from kvplan.engine.models.general import Construction

DEFAULT_INTERVAL = 4
"""Every so many layers one goes without rotary positions, where the config does not say."""


def llama4(made: Construction) -> tuple[LayerGeometry, ...]:
    """A layer with rotary positions (a non-zero entry of `no_rope_layers`) is chunked if the config has a chunk size.

    Without the list, which released files leave empty, every `no_rope_layer_interval`-th layer has none.
    """
    text, count = made.text, made.count
    chunk = text.optional("attention_chunk_size")
    rotary = text.per_layer("no_rope_layers", count)
    if rotary is None:
        interval = text.optional("no_rope_layer_interval") or DEFAULT_INTERVAL
        rotary = [(index + 1) % interval for index in range(count)]
    return tuple(
        replace(layer, kind=Kind.CHUNKED, layer_class="ChunkedLocalAttention", chunk_size=chunk)
        if rotary[layer.index] and chunk
        else layer
        for layer in general.uniform(made, (None,) * count)
    )
