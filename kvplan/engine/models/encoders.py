"""Models whose layers attend in both directions and keep nothing (`EncoderOnlyAttention`)."""

from __future__ import annotations

from collections.abc import Sequence

from kvplan.engine.models import pooling
from kvplan.engine.models.construction import Construction
from kvplan.engine.models.geometry import Kind, LayerGeometry

_WITHOUT_CACHE_CONFIG = frozenset({"colultravbert", "modernbert"})
"""Modules that hand their attention no cache config: the cache dtype and the skip list do not reach it."""
_ASKS_OTHERWISE = frozenset({"embedding_gemma2", "colmodernvbert", "siglip"})
"""Modules whose attention asks with windows of its own, or hangs beside a tower."""


def is_encoder(made: Construction) -> bool:
    """Whether the class is an encoder, whatever its config says."""
    return made.entry.kind == "encoder" or (made.entry.encoder_only and not made.entry.wraps_transformers)


def first(made: Construction) -> LayerGeometry | None:
    """The first layer of a model that keeps nothing; None for other models, and where its question is not known."""
    found, module = made.numbers, made.entry.module
    if not (is_encoder(made) or pooling.keeps_nothing(made)) or module in _ASKS_OTHERWISE:
        return None
    if not found.num_layers or not found.total_kv_heads or not found.head_size:
        return None
    return _layer(made, 0)


def beside_states(made: Construction, states: Sequence[LayerGeometry]) -> LayerGeometry | None:
    """The first layer between `states`, all that a hybrid model keeps, whose attention keeps nothing; None if none."""
    if not states or any(layer.state is None for layer in states) or not pooling.attends_both_ways(made):
        return None
    numbers = {layer.index for layer in states}
    first_of_others = next((index for index in range(made.count) if index not in numbers), None)
    return None if first_of_others is None else _layer(made, first_of_others)


def _layer(made: Construction, index: int) -> LayerGeometry:
    found, module = made.numbers, made.entry.module
    return LayerGeometry(
        name=made.name(index),
        index=index,
        kind=Kind.ENCODER,
        total_heads=found.total_heads,
        total_kv_heads=found.total_kv_heads,
        head_size=found.head_size,
        reads_cache_config=module not in _WITHOUT_CACHE_CONFIG,
    )
