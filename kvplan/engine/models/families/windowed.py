"""Decoders whose windows, or what they hand their backend with them, follow rules of their own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kvplan.engine.models import general, windows
from kvplan.engine.models.arch_config import layer_shapes
from kvplan.engine.models.family import Family
from kvplan.engine.models.geometry import LayerGeometry
from kvplan.engine.models.recipe import by_layer_types, named
from kvplan.history import models as history

if TYPE_CHECKING:
    from kvplan.engine.models.construction import Construction


def cohere(made: Construction) -> tuple[LayerGeometry, ...]:
    """Command R and its successors; the first of them has no layer_types and so no windows."""
    extra = 1 if made.release.has(history.COHERE_WINDOW_PLUS_ONE) else 0
    return general.uniform(made, windows.by_layer_types(made.text, made.release, made.count, extra))


def domyn_edge(made: Construction) -> tuple[LayerGeometry, ...]:
    """Domyn Edge: a pair in `window_sizes` for each layer, whose first number plus one is the window.

    Head sizes may differ by layer.
    """
    text, count = made.text, made.count
    sizes = text.pairs_per_layer("window_sizes", count)
    if sizes is None:
        raise text.wrong("window_sizes", "is missing; Domyn Edge needs one entry for each layer")
    shapes = layer_shapes(text, made.numbers.common, count)
    built = []
    for index, shape in enumerate(shapes):
        pair = sizes[index]
        left = pair[0] if isinstance(pair, (list, tuple)) and pair else pair
        if isinstance(left, bool) or not isinstance(left, int):
            raise text.wrong("window_sizes", "must hold pairs of whole numbers")
        built.append(
            LayerGeometry(
                name=made.name(index),
                index=index,
                total_heads=made.numbers.total_heads,
                total_kv_heads=shape.kv_heads,
                head_size=shape.head_size,
                sliding_window=left + 1 if left > 0 else None,
            )
        )
    return tuple(built)


def flint(made: Construction) -> tuple[LayerGeometry, ...]:
    """Flint: windows by layer_types, sinks everywhere; its kernel writes the cache as FlashInfer would."""
    built = general.uniform(made, general.layer_windows(made), sinks=(True,) * made.count)
    return tuple(replace(layer, needs="flashinfer") for layer in built)


def gpt_oss(made: Construction) -> tuple[LayerGeometry, ...]:
    """gpt-oss: every even layer slides, whatever layer_types says; all have sinks."""
    window = windows.config_window(made.text, made.release)
    passed = tuple(None if index % 2 else window for index in range(made.count))
    built = general.uniform(made, passed, sinks=(True,) * made.count)
    return tuple(replace(layer, replicates_kv_heads=False) for layer in built)


def granite(made: Construction) -> tuple[LayerGeometry, ...]:
    """Granite: windows and sinks by layer_types, once the release reads them."""
    if not made.release.has(history.GRANITE_LAYER_WINDOWS):
        return general.uniform(made, (None,) * made.count)
    passed = windows.by_layer_types(made.text, made.release, made.count)
    own = made.text.get("attention_sinks")
    sinks = "layer_types" in made.text if own is None else bool(own)
    return general.uniform(made, passed, sinks=(sinks,) * made.count)


def laguna(made: Construction) -> tuple[LayerGeometry, ...]:
    """Laguna: sliding layers may have sinks."""
    passed = windows.by_layer_types(made.text, made.release, made.count)
    enabled = bool(made.text.get("swa_attention_sink_enabled"))
    return general.uniform(made, passed, sinks=tuple(enabled and window is not None for window in passed))


def rnj1(made: Construction) -> tuple[LayerGeometry, ...]:
    """Rnj-1: chunked layers look back one chunk; all hand their backend how far."""
    window = windows.config_window(made.text, made.release)
    types = made.text.per_layer("layer_types", made.count) or (None,) * made.count
    passed = tuple(window if kind == "chunked_attention" else None for kind in types)
    return tuple(replace(layer, needs="chunk_lookback") for layer in general.uniform(made, passed))


FAMILIES = (
    Family(name="cohere", modules={"cohere2_moe": named(), "commandr": named()}, layers=cohere),
    Family(name="domyn_edge", modules={"domyn_edge": named("model.layers.{i}.attention.attn")}, layers=domyn_edge),
    Family(name="flint", modules={"models.flint": by_layer_types()}, layers=flint),
    Family(name="gpt_oss", modules={"gpt_oss": named("model.layers.{i}.attn.attn")}, layers=gpt_oss),
    Family(
        name="granite",
        modules=dict.fromkeys(("granite", "granitemoe", "granitemoeshared"), named()),
        layers=granite,
    ),
    Family(name="laguna", modules={"laguna": named(clears_window=True)}, layers=laguna),
    Family(name="rnj1", modules={"rnj1": named()}, layers=rnj1),
)
