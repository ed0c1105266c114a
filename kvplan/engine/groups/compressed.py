"""Grouping and sizing of models with sliding latent caches, from 0.20 to 0.28.

One group holds all full latent caches, whatever their page; the sliding ones are split by block size and window, then
into groups of equally many layer tuples (one layer of each page size). Source: v1/core/kv_cache_utils.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from kvplan.engine.failures import AssertionFails
from kvplan.engine.specs.base import BareAssertion, LayerSpec, MLAAttentionSpec, RequestLimits, ceil_div, same_type
from kvplan.engine.specs.compressed import SlidingWindowMLASpec
from kvplan.history import compressed as history
from kvplan.releases import Release

Specs = Mapping[str, LayerSpec]
Groups = Sequence[Sequence[LayerSpec]]
"""The specs of each group, layer by layer."""


def latent_groups(specs: Specs, release: Release) -> list[Specs] | None:
    """The groups of a model with sliding latent caches, each one block table over unlike pages.

    None for any other model or release.

    Raises BareAssertion where the layers are not of the pattern that vLLM asserts.
    """
    if not release.has(history.LATENT_GROUPS):
        return None
    if not any(isinstance(spec, SlidingWindowMLASpec) for spec in specs.values()):
        return None
    if release.has(history.LATENT_GROUPS_NEED_MIXED_PAGES) and len({s.page_bytes for s in specs.values()}) <= 1:
        return None
    full = {name: spec for name, spec in specs.items() if isinstance(spec, MLAAttentionSpec)}
    sliding: dict[tuple[int, int], dict[str, LayerSpec]] = {}
    for name, spec in specs.items():
        if isinstance(spec, SlidingWindowMLASpec):
            sliding.setdefault((spec.block_size, spec.sliding_window), {})[name] = spec
    if not full or not same_type(list(full.values())):
        raise BareAssertion(AssertionFails(check="the full latent caches of the model are of one type"))
    counts = [_tuples(full), *(_tuples(bucket) for bucket in sliding.values())]
    length = cheapest_divisor(counts, counts[0])
    groups: list[Specs] = [full]
    for bucket in sliding.values():
        groups += _split(_padded_to(full, bucket, release), length)
    return groups


def bytes_per_block(groups: Groups, release: Release) -> int:
    """Bytes of one block of several groups whose layers have different pages."""
    if release.has(history.POOL_IS_LAYER_TUPLES):
        return _layer_tuples(groups)
    if release.has(history.POOL_IS_SLOTS_BY_PAGE):
        slots: Counter[int] = Counter()
        for group in groups:
            slots |= Counter(spec.page_bytes for spec in group)
        return sum(page * count for page, count in slots.items())
    return max(sum(spec.page_bytes for spec in group) for group in groups)


def needed_bytes(groups: Groups, limits: RequestLimits) -> int:
    """Bytes that the admission check counts for one request, in all these releases by layer tuples."""
    blocks = sum(max(spec.request_blocks(limits) for spec in group) for group in groups)
    return _layer_tuples(groups) * blocks


def _layer_tuples(groups: Groups) -> int:
    pages = {spec.page_bytes for spec in groups[0]}
    return sum(pages) * max(_most_frequent(group) for group in groups)


def _most_frequent(specs: Sequence[LayerSpec]) -> int:
    return max(Counter(spec.page_bytes for spec in specs).values())


def _tuples(bucket: Specs) -> int:
    """Layers of the most frequent page size."""
    return _most_frequent(list(bucket.values()))


def _padded_to(full: Specs, bucket: dict[str, LayerSpec], release: Release) -> dict[str, LayerSpec]:
    """Sliding pages grown to the next page size of the full group, where the release does that."""
    if not release.has(history.LATENT_PAGES_PADDED_TO_FULL):
        return bucket
    pages = sorted({spec.page_bytes for spec in full.values()})
    largest = max(spec.page_bytes for spec in bucket.values())
    if largest > pages[-1]:
        raise BareAssertion(
            AssertionFails(check="a sliding latent page is no larger than the largest full one", page_bytes=largest)
        )
    grown = {}
    for name, spec in bucket.items():
        target = next(page for page in pages if page >= spec.page_bytes)
        grown[name] = spec if target == spec.page_bytes else padded(spec, target)
    return grown


def padded(spec: LayerSpec, page: int) -> LayerSpec:
    """A copy with the page padded to `page`, past what the spec's own alignment settled."""
    copy = replace(spec)
    object.__setattr__(copy, "page_size_padded", page)
    return copy


def _split(bucket: Specs, length: int) -> list[Specs]:
    by_page: dict[int, list[str]] = {}
    for name, spec in bucket.items():
        by_page.setdefault(spec.page_bytes, []).append(name)
    counts = {len(names) for names in by_page.values()}
    if len(counts) != 1:
        raise BareAssertion(AssertionFails(check="every page size of a sliding latent bucket has equally many layers"))
    parts = ceil_div(counts.pop(), length)
    rows = list(zip(*by_page.values(), strict=True))
    return [{name: bucket[name] for row in rows[part::parts] for name in row} for part in range(parts)]


def cheapest_divisor(counts: Sequence[int], floor: int) -> int:
    """The chunk length from `floor` up that wastes the fewest places when every count is rounded up to it."""
    best, waste = floor, None
    for length in range(floor, max(counts) + 1):
        wasted = sum(-count % length for count in counts)
        if waste is None or wasted <= waste:
            best, waste = length, wasted
    return best
