"""What a release's model class reads from the config without a fallback, and the config may not have.

vLLM's classes are written against one config class; where another reads the file (an installed Transformers that
brings its own, or vLLM's own that derives less), building the model ends in a bare Python error. Left out: fields
that only a config nobody published lacks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kvplan.checkpoint.normalise import ORIGINAL
from kvplan.engine.models.refusals import Refused
from kvplan.releases import ALWAYS, Span

if TYPE_CHECKING:
    from kvplan.engine.models.construction import Construction

FIELDS: dict[str, tuple[tuple[str, Span], ...]] = {
    "AXK1": (("first_k_dense_replace", Span(until="0.25.1")),),
    "afmoe": (("score_func", Span(since="0.32.0")),),
    "exaone_moe": (("sliding_windows", Span(since="0.27.1", until="0.31.0")),),
    "rnj1": (("layer_types", ALWAYS), ("query_pre_attn_scalar", ALWAYS)),
}
"""By module: fields that its layers read, which the Transformers class of the model type does not have by itself, and
the releases in which that class reads the config."""

DERIVED_BY_TRANSFORMERS: dict[str, tuple[tuple[str, Span], ...]] = {
    "afmoe": (("layer_types", Span(until="0.31.0")),),
}
"""By module: lists that Transformers derives where the file is silent and vLLM's own config class leaves unset."""

ONE_ROPE: dict[str, Span] = {"olmo2": Span(since="0.19.1", until="0.25.1")}
"""Modules whose sliding layers read `rope_theta` as if all layers shared one set of rope parameters."""


def check(made: Construction) -> None:
    """Raises Refused, with Python's own words, where the class of `made` misses something."""
    module, text, release = made.entry.module, made.text, made.release
    for name, span in FIELDS.get(module, ()):
        if release.within(span) and name not in text.values:
            raise _refused(made, "AttributeError", f"object has no attribute {name!r}", name)
    original = text.get(ORIGINAL)
    for name, span in DERIVED_BY_TRANSFORMERS.get(module, ()):
        silent = isinstance(original, Mapping) and name in original and original[name] is None
        if release.within(span) and silent:
            raise _refused(made, "TypeError", "'NoneType' object is not subscriptable", name)
    if module in ONE_ROPE and release.within(ONE_ROPE[module]):
        rope = text.get("rope_parameters")
        slides = "sliding_attention" in tuple(text.strings("layer_types"))
        if slides and isinstance(rope, Mapping) and "rope_theta" not in rope:
            raise _refused(made, "KeyError", "'rope_theta'", "rope_parameters")


def _refused(made: Construction, exception: str, message: str, field: str) -> Refused:
    return Refused(made.architecture, message, exception, "layers", f"{field} of the config, which its class reads")
