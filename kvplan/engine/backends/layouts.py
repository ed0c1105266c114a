"""The physical KV cache layout that all backends of a model agree on (0.29 and later).

Facts from `get_supported_kv_cache_layouts` and `resolve_kv_cache_layout` in vllm/v1/attention/backends/utils.py
and from vllm/v1/kv_cache_layout.py. A layout's name is the order of its dimensions in memory, outermost first:
layers (L), blocks (B), heads (H), tokens (N), content (C).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from kvplan.engine.backends.selection import BY_NAME
from kvplan.engine.backends.values import BackendQuery
from kvplan.history import backends as history
from kvplan.releases import Release

PREFERENCE = ("LBNHC", "LBHNC", "BLNHC", "BLHNC", "BHLNC", "LHBNC")
"""vLLM's preference where no backend names its own."""
_ENUM_ORDER = ("LBHNC", "LBNHC", "LHBNC", "BLHNC", "BLNHC", "BHLNC")
_LEGACY = {"NHD": "LBNHC", "HND": "LBHNC"}


@dataclass(frozen=True, slots=True)
class LayoutDecision:
    """The layout of the whole model, or why there is none."""

    layout: str | None
    candidates: tuple[str, ...] = ()
    error: str | None = None
    """The gist of vLLM's ValueError."""


def is_block_outermost(layout: str) -> bool:
    """Whether blocks are the outermost dimension, so that layers of one block lie together."""
    return layout.startswith("B")


def is_block_compact(layout: str) -> bool:
    """Whether each page is one contiguous run (layers and blocks are the two outer dimensions)."""
    return set(layout[:2]) == {"L", "B"}


def supported_layouts(name: str, query: BackendQuery, release: Release) -> tuple[str, ...] | None:
    """Layouts the backend can work with, best first; None: any."""
    backend = BY_NAME[name]
    if backend.layout_check is not None:
        return backend.layout_check(query, release)
    return backend.layouts.at(release)


def kv_cache_layout(
    backends: Iterable[tuple[str, BackendQuery]],
    release: Release,
    *,
    shapes: Iterable[tuple[int, int, int]] = (),
    dcp_sharding: Iterable[bool] = (),
    requested: str | None = None,
    connector: str | None = None,
) -> LayoutDecision | None:
    """The layout for a model with these (distinct) backends; None in releases without a common layout.

    `shapes` are the specs' (heads, states a page, page bytes): more than one distinct shape needs block-compact
    layouts. `dcp_sharding` holds each attention spec's dcp_sharded flag. `requested` is VLLM_KV_CACHE_LAYOUT,
    `connector` what a KV connector prefers.
    """
    if not release.has(history.LAYOUT_RESOLVED_FOR_MODEL):
        return None
    candidates = _common([supported_layouts(name, query, release) for name, query in backends])
    if not candidates:
        return LayoutDecision(None, error="No KV cache layout satisfies every supported set")
    distinct = set(shapes)
    if len(distinct) > 1:
        candidates = tuple(layout for layout in candidates if is_block_compact(layout))
        if not candidates:
            return LayoutDecision(None, error="Specs with mixed HNC shapes need a block-compact layout")
    mixed = len(set(dcp_sharding)) > 1 and len({page for _, _, page in distinct}) > 1
    if mixed and release.has(history.LAYOUT_KEEPS_DCP_GROUPS_APART):
        candidates = tuple(layout for layout in candidates if is_block_outermost(layout))
        if not candidates:
            return LayoutDecision(
                None,
                error="DCP with a replicated draft and mixed KV page sizes requires a block-outer KV cache layout",
            )
    if requested is not None:
        wanted = _LEGACY.get(requested, requested)
        if wanted not in candidates:
            return LayoutDecision(
                None, candidates, f"VLLM_KV_CACHE_LAYOUT={requested} does not satisfy every supported set"
            )
        return LayoutDecision(wanted, candidates)
    if connector is not None and _LEGACY.get(connector, connector) in candidates:
        return LayoutDecision(_LEGACY.get(connector, connector), candidates)
    return LayoutDecision(candidates[0], candidates)


def disagreement(workers: Iterable[Iterable[tuple[str, BackendQuery]]], release: Release) -> str | None:
    """vLLM's assertion where pipeline stages, each with its backends, do not support the same layouts in one order.

    A stage without attention layers takes any; None where all agree, and where a stage has none in common.
    """
    if not release.has(history.LAYOUT_RESOLVED_FOR_MODEL):
        return None
    found = [_common([supported_layouts(name, query, release) for name, query in backends]) for backends in workers]
    if not all(found) or len(set(found)) < 2:
        return None
    return f"Workers disagree on supported KV cache layouts: {[list(layouts) for layouts in found]}."


def _common(declared: list[tuple[str, ...] | None]) -> tuple[str, ...]:
    """Layouts that every declaration holds: equal declarations keep their order, else most first choices win."""
    named = [layouts for layouts in declared if layouts is not None] or [PREFERENCE]
    if all(layouts == named[0] for layouts in named):
        return named[0]
    first_choices = Counter(layouts[0] for layouts in named)
    shared = set.intersection(*map(set, named))
    ordered = [layout for layout in _ENUM_ORDER if layout in shared]
    return tuple(sorted(ordered, key=lambda layout: -first_choices[layout]))
