"""How one of vLLM's model modules names its attention layers, as families say it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from kvplan.releases import ALWAYS, Span

DECODER = "model.layers.{i}.self_attn.attn"
"""Module prefix of the attention of decoder layer `{i}` in most classes."""


class Windows(StrEnum):
    """Where the window that a layer passes comes from."""

    NONE = "none"
    """Layers pass none: the model-level window, if any, is theirs."""
    LAYER_TYPES = "layer_types"
    """`sliding_attention` in `layer_types` takes the config's window."""
    INTERLEAVED = "interleaved"
    """`interleaved_sliding_window`, a number or a list that repeats."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """How the layers of one vLLM module are named, and where their windows come from."""

    layout: str = DECODER
    """Module prefix of decoder layer `{i}`'s attention. A leading dot is real: those classes join their own, empty,
    prefix and the rest with a dot."""
    windows: Windows = Windows.NONE
    wraps: str | None = None
    """Multimodal wrappers: where the language model hangs (empty: at the top)."""
    architecture: str | None = None
    """Multimodal wrappers: the class they build, whatever the text config names."""
    unnamed: bool = False
    """Multimodal wrappers that build a class of their own choice from a text config for which they name none."""
    clears_window: bool = False
    """Whether the model code clears the model-level window, so that no layer falls back to it."""
    span: Span = ALWAYS


Recipes = tuple[Recipe, ...]
"""The recipes of one module, each for the releases of its span."""


def named(layout: str = DECODER, windows: Windows = Windows.NONE, *, clears_window: bool = False) -> Recipes:
    """Layers under the names of `layout`."""
    return (Recipe(layout=layout, windows=windows, clears_window=clears_window),)


def by_layer_types(layout: str = DECODER, *, clears_window: bool = False) -> Recipes:
    """Layers under the names of `layout` that slide where `layer_types` says so."""
    return named(layout, Windows.LAYER_TYPES, clears_window=clears_window)


def wraps(architecture: str | None = None, prefix: str = "language_model") -> Recipes:
    """A multimodal class that builds `architecture`, or what its text config names, at `prefix`."""
    return (Recipe(wraps=prefix, architecture=architecture),)
