"""Sliding windows: the model-level one, and what layers pass themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvplan.history import models as history

if TYPE_CHECKING:
    from kvplan.engine.models.fields import Fields
    from kvplan.releases import Release

SLIDING = "sliding_attention"


def model_window(text: Fields, release: Release) -> int | None:
    """vLLM's `cache_config.sliding_window` in tokens: the window of layers that pass none themselves."""
    types = text.items("layer_types")
    if types is not None and not _uniform(types, release):
        return None
    return config_window(text, release)


def _uniform(types: object, release: Release) -> bool:
    """Whether a `layer_types` list lets the config's window apply to the whole model."""
    distinct = set(map(str, types)) if isinstance(types, (list, tuple)) else set()
    if release.has(history.MODEL_WINDOW_NEEDS_ALL_LAYERS_SLIDING):
        return distinct <= {SLIDING}
    return len(distinct) <= 1


def config_window(text: Fields, release: Release) -> int | None:
    """The config's `sliding_window`; a list means windows per layer and no single one."""
    if isinstance(text.get("sliding_window"), (list, tuple)):
        return None
    window = text.optional("sliding_window")
    if window == 0 and release.has(history.ZERO_WINDOW_IS_NONE):
        return None
    return window


def by_layer_types(text: Fields, release: Release, count: int, extra: int = 0) -> tuple[int | None, ...]:
    """The window each layer passes where the model code follows `layer_types`; `extra` tokens are added."""
    types = text.per_layer("layer_types", count)
    window = config_window(text, release)
    if types is None or window is None:
        return (None,) * count
    return tuple(window + extra if types[index] == SLIDING else None for index in range(count))


def by_list(text: Fields, name: str, count: int) -> tuple[int | None, ...]:
    """The window each layer passes where the config lists them (a null or 0 entry is full attention)."""
    listed = text.per_layer(name, count)
    if listed is None:
        return (None,) * count
    return tuple(text.number(name, item) or None if item is not None else None for item in listed[:count])


def interleaved(text: Fields, count: int) -> tuple[int | None, ...]:
    """The window each layer passes where the config repeats `interleaved_sliding_window` over the layers.

    vLLM moves a `sliding_window` that is a list to that name.
    """
    listed = text.get("interleaved_sliding_window")
    if listed is None and isinstance(text.get("sliding_window"), (list, tuple)):
        listed = text.get("sliding_window")
    if listed is None:
        return (None,) * count
    if not isinstance(listed, (list, tuple)):
        return (text.number("interleaved_sliding_window", listed) or None,) * count
    if not listed:
        return (None,) * count
    read = [None if item is None else text.number("sliding_window", item) or None for item in listed]
    return tuple(read[index % len(read)] for index in range(count))
