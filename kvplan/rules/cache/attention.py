"""What the cache rules ask about a plan's layers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from kvplan.engine.facade import Kind, Role, boundary_layers, is_quantised
from kvplan.engine.values import LayerPlan, Plan
from kvplan.rules.words import layers as layers_in_words

SKIP_FLAG = "--kv-cache-dtype-skip-layers"
DTYPE_FLAG = "--kv-cache-dtype"


def attention_layers(plan: Plan) -> Iterator[LayerPlan]:
    """The layers whose cache dtype the flags are about (no indexers, no states)."""
    return (layer for layer in plan.layers if layer.role in (Role.ATTENTION, Role.DRAFT))


def quantised_layers(plan: Plan) -> list[LayerPlan]:
    """Attention layers that store a quantised cache."""
    return [layer for layer in attention_layers(plan) if is_quantised(layer.cache_dtype)]


def mla_indices(plan: Plan) -> frozenset[int]:
    """Decoder layers with latent attention."""
    if plan.geometry is None:
        return frozenset()
    return frozenset(layer.index for layer in plan.geometry.layers if layer.kind is Kind.MLA)


def of(layers: Iterable[LayerPlan]) -> tuple[int, ...]:
    """Their decoder layer numbers."""
    return tuple(sorted({layer.index for layer in layers}))


def kv_scheme(plan: Plan) -> bool:
    """Whether the checkpoint's quantisation section declares how the cache is to be stored."""
    section = plan.checkpoint.quantization
    if not section:
        return False
    inner = section.get("quantization")
    sections = [section, inner] if isinstance(inner, Mapping) else [section]
    return any(part.get(key) for part in sections for key in ("kv_cache_scheme", "kv_cache_quant_algo"))


def without_boundary(plan: Plan) -> str:
    """The way out where the layers that the cache dtype itself skips are the trouble."""
    dtype = plan.settings.requested_cache_dtype if plan.settings is not None else "the cache dtype"
    return f"pass {DTYPE_FLAG} fp8: {dtype} itself leaves {layers_in_words(boundary_layers(plan))} unquantised"


def reason(plan: Plan, value: str) -> str | None:
    """The last cause that the trace gives for a launch-wide value."""
    return next((step.cause for step in reversed(plan.trace) if step.value == value), None)
