"""Stage 7: pages are unified and layers grouped (`get_kv_cache_groups`).

All layers of the model are grouped together, whatever stage of the pipeline owns them; each worker then keeps its
own members. Source: v1/core/kv_cache_utils.py, since 0.33.0 v1/core/kv_cache_planning.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from kvplan.engine.backends.layouts import is_block_outermost
from kvplan.engine.failures import (
    AssertionFails,
    EmptyPage,
    Failure,
    HybridManagerRefused,
    PagesNotUnifiable,
    StateExceedsPage,
)
from kvplan.engine.groups.compressed import cheapest_divisor, latent_groups
from kvplan.engine.groups.pooled import StateTooLarge, pooled_groups
from kvplan.engine.specs.base import (
    AttentionSpec,
    BareAssertion,
    FullAttentionSpec,
    LayerSpec,
    MambaSpec,
    MLAAttentionSpec,
    SlidingWindowSpec,
    attention_token_bytes,
    can_merge,
    ceil_div,
    same_type,
)
from kvplan.engine.specs.compressed import (
    CircularBufferSpec,
    HiddenStateCacheSpec,
    SlidingWindowMLASpec,
    promote_latent,
)
from kvplan.engine.specs.partial import ChunkedLocalAttentionSpec
from kvplan.engine.stop import stop
from kvplan.engine.values import Stage, Step
from kvplan.history import blocks, capacity, compressed, packed, speculation, state
from kvplan.releases import Release

Specs = Mapping[str, LayerSpec]

LOCAL = (SlidingWindowSpec, ChunkedLocalAttentionSpec)
"""Specs of layers that see a part of the text, which a switched-off hybrid manager allocates as full attention."""


@dataclass(frozen=True, slots=True)
class CacheGroup:
    """Layers under one block table. `uniform` groups hold layers of different pages side by side; in the others
    every layer has the same page."""

    layers: tuple[str, ...]
    specs: tuple[LayerSpec, ...]
    """One spec a layer, in the order of `layers`."""
    uniform: bool
    representative: LayerSpec
    """What the group is known by, also on a worker that owns none of its layers."""

    @property
    def block_size(self) -> int:
        """Tokens a block."""
        return self.representative.block_size

    @property
    def page_bytes(self) -> int:
        """Bytes of one block: of one layer, or of all layers in a uniform group."""
        if self.uniform:
            return sum(spec.page_bytes for spec in self.specs)
        return self.representative.page_bytes

    def on_worker(self, mine: frozenset[str]) -> CacheGroup:
        """The group as a worker sees it that owns only the layers in `mine`."""
        kept = [(name, spec) for name, spec in zip(self.layers, self.specs, strict=True) if name in mine]
        if len(kept) == len(self.layers):
            return self
        names, specs = tuple(name for name, _ in kept), tuple(spec for _, spec in kept)
        return replace(self, layers=names, specs=specs, uniform=self.uniform and bool(specs))


@dataclass(frozen=True, slots=True)
class Grouping:
    """The groups and what forming them cost."""

    groups: tuple[CacheGroup, ...]
    steps: tuple[Step, ...] = ()


def group(specs: Specs, release: Release, *, hybrid_manager_disabled: bool, layout: str | None) -> Grouping:
    """Group the layers of the whole model. Raises StartupStops where vLLM refuses."""
    stage = Stage.SPECS if release.has(capacity.GROUPS_PLANNED_WITH_SPECS) else Stage.GROUPING
    _check_not_empty(specs)
    try:
        return _group(specs, release, hybrid_manager_disabled, layout)
    except BareAssertion as failed:
        raise stop(stage, failed.facts, "", exception="AssertionError") from None
    except _Refused as refused:
        raise stop(stage, refused.facts, refused.message, exception=refused.exception) from None


def _check_not_empty(specs: Specs) -> None:
    """A block of fewer tokens than one compressed state has a page of no bytes, which grouping then divides by."""
    for name, spec in specs.items():
        if spec.page_bytes == 0:
            raise stop(
                Stage.GROUPING,
                EmptyPage(layer=name, block_size=spec.block_size),
                "integer division or modulo by zero",
                exception="ZeroDivisionError",
            )


class _Refused(Exception):  # noqa: N818
    def __init__(self, exception: str, facts: Failure, message: str) -> None:
        super().__init__(message)
        self.exception, self.facts, self.message = exception, facts, message


def _group(specs: Specs, release: Release, hybrid_manager_disabled: bool, layout: str | None) -> Grouping:
    steps: list[Step] = []
    if not specs:
        return Grouping(())
    if hybrid_manager_disabled:
        promoted = _promote(specs, release)
        if promoted is not specs:
            steps.append(
                Step(
                    Stage.GROUPING,
                    "groups.promotion",
                    "sliding-window layers allocated as full attention",
                    "the hybrid KV cache manager is off",
                    option="--disable-hybrid-kv-cache-manager",
                )
            )
        specs = promoted
    listed = list(specs.values())
    if _mergeable(listed):
        return Grouping((_plain(specs, list(specs)),), (*steps, _step("one group: every layer has the same spec")))
    if same_type(listed):
        return Grouping((_uniform(specs),), (*steps, _step("one group: every layer needs the same token slots")))
    hidden = {name: spec for name, spec in specs.items() if isinstance(spec, HiddenStateCacheSpec)}
    if hidden:
        specs = {name: spec for name, spec in specs.items() if name not in hidden}
        return _with_hidden_states(_several(specs, release, layout, steps), hidden, release)
    return _several(specs, release, layout, steps)


def _several(specs: Specs, release: Release, layout: str | None, steps: list[Step]) -> Grouping:
    """The groups of layers of several types."""
    pooled = _pooled(specs, release)
    if pooled is not None:
        return Grouping(pooled, (*steps, _step("states in the slots of latent pages, tails in those of index pages")))
    latent = latent_groups(specs, release)
    if latent is not None:
        note = _step("full latent caches in one group, sliding ones by block size and window")
        return Grouping(tuple(_uniform(bucket) for bucket in latent), (*steps, note))
    if layout is not None and is_block_outermost(layout) and release.has(blocks.PACKED_GROUPS):
        side_by_side = _packed(specs, release)
        if side_by_side is not None:
            return Grouping(side_by_side, (*steps, _step("mixed pages packed side by side in a block")))
    try:
        unified = _unify_pages(specs, release)
    except _Refused:
        fallback = _full_allocation(specs, release)
        if fallback is None:
            raise
        note = _step("sliding-window layers allocated as full attention: pages cannot be unified beside MLA")
        return Grouping(fallback, (*steps, note))
    groups, note = _by_pattern(unified, release)
    return Grouping(groups, (*steps, note))


def _with_hidden_states(grouping: Grouping, hidden: Specs, release: Release) -> Grouping:
    """The groups and behind them one for each cache of hidden states, with a page as large as theirs."""
    groups = list(grouping.groups)
    if groups[0].uniform and release.has(speculation.HIDDEN_STATES_PACKED_AS_THEY_ARE):
        return replace(grouping, groups=(*groups, *(_plain({name: spec}, [name]) for name, spec in hidden.items())))
    page = groups[0].page_bytes
    largest = max(spec.token_bytes for spec in hidden.values() if isinstance(spec, HiddenStateCacheSpec))
    if largest > page and release.has(speculation.HIDDEN_STATES_RAISE_PAGES):
        scale = ceil_div(largest, page)
        page *= scale
        groups = [_scaled(group, scale) for group in groups]
    common = math.gcd(*(group.block_size for group in groups))
    for name, spec in hidden.items():
        assert isinstance(spec, HiddenStateCacheSpec)
        size = max(page // spec.token_bytes, 1)
        if release.has(speculation.HIDDEN_STATES_DIVIDE_BLOCKS):
            size = next(divisor for divisor in range(min(size, common), 0, -1) if common % divisor == 0)
        aligned = replace(spec, block_size=size, page_size_padded=page)
        groups.append(_plain({name: aligned}, [name]))
    return replace(grouping, groups=tuple(groups))


def _scaled(group: CacheGroup, scale: int) -> CacheGroup:
    """The group with blocks of `scale` times as many tokens."""
    specs = tuple(
        replace(
            spec,
            block_size=spec.block_size * scale,
            page_size_padded=None if spec.page_size_padded is None else spec.page_size_padded * scale,
        )
        for spec in group.specs
    )
    return replace(group, specs=specs, representative=specs[0])


def _pooled(specs: Specs, release: Release) -> tuple[CacheGroup, ...] | None:
    try:
        found = pooled_groups(specs, release)
    except StateTooLarge as error:
        raise _Refused("ValueError", StateExceedsPage(page_bytes=error.page_bytes), str(error)) from None
    if found is None:
        return None
    uniform = [_uniform(bucket) for bucket in found.uniform]
    return (*uniform, *(_plain(bucket, list(bucket)) for bucket in found.plain))


def _step(text: str) -> Step:
    return Step(Stage.GROUPING, "groups", text, "from the layers' specs")


def _mergeable(specs: list[LayerSpec]) -> bool:
    """Whether one spec can stand for all. Raises _Refused where windows of full-attention specs differ."""
    try:
        return can_merge(specs)
    except ValueError as error:
        raise _Refused("ValueError", HybridManagerRefused(), str(error)) from None


def _plain(specs: Specs, names: list[str]) -> CacheGroup:
    members = tuple(specs[name] for name in names)
    return CacheGroup(tuple(names), members, uniform=False, representative=members[0])


def _uniform(specs: Specs) -> CacheGroup:
    members = tuple(specs.values())
    return CacheGroup(tuple(specs), members, uniform=True, representative=members[0])


def _promote(specs: Specs, release: Release) -> Specs:
    """Local layers become full attention where both kinds exist (the hybrid manager is off)."""
    listed = list(specs.values())
    if _mergeable(listed) or same_type(listed):
        return specs
    divided = {name: spec for name, spec in specs.items() if not isinstance(spec, AttentionSpec) or spec.divided}
    if divided and len(divided) < len(specs):
        whole = {name: spec for name, spec in specs.items() if name not in divided}
        apart = {**_promote(divided, release), **_promote(whole, release)}
        return (
            specs if all(apart[name] is spec for name, spec in specs.items()) else {name: apart[name] for name in specs}
        )
    full = [spec for spec in listed if isinstance(spec, FullAttentionSpec)]
    promoted: dict[str, LayerSpec] = dict(specs)
    if full and any(isinstance(spec, LOCAL) for spec in listed):
        sizes = {spec.block_size for spec in full}
        common = next(iter(sizes)) if len(sizes) == 1 else None
        takes_common = release.has(blocks.PROMOTION_TAKES_FULL_BLOCK_SIZE)
        for name, spec in specs.items():
            if isinstance(spec, SlidingWindowMLASpec):
                if release.has(compressed.PROMOTION_OF_SLIDING_LATENT_FAILS):
                    text = "MLAAttentionSpec.__init__() got an unexpected keyword argument 'bounded_replay'"
                    raise _Refused("TypeError", HybridManagerRefused(), text)
                promoted[name] = promote_latent(spec, common or full[0].block_size, release)
            elif isinstance(spec, LOCAL):
                promoted[name] = _as_full(spec, (common if takes_common else None) or spec.block_size, release)
    listed = list(promoted.values())
    if not (_mergeable(listed) or same_type(listed)):
        text = (
            "Failed to promote local KV cache specs to one unified type."
            if release.has(blocks.PROMOTION_TAKES_FULL_BLOCK_SIZE)
            else "Hybrid KV cache manager is disabled but failed to convert the KV cache specs to one unified type."
        )
        raise _Refused("ValueError", HybridManagerRefused(), text)
    return promoted


def _as_full(
    spec: SlidingWindowSpec | ChunkedLocalAttentionSpec, block_size: int, release: Release
) -> FullAttentionSpec:
    chunked = isinstance(spec, ChunkedLocalAttentionSpec)
    keeps = release.has(blocks.PROMOTED_CHUNKS_KEEP_MODE if chunked else blocks.PROMOTION_KEEPS_VALUE_HEAD_AND_MODE)
    value_head = spec.head_size_v if keeps and spec.head_size_v is not None else spec.head_size
    padded = spec.page_size_padded
    if padded is not None and release.has(blocks.PROMOTION_TAKES_FULL_BLOCK_SIZE):
        padded = max(padded, spec.token_bytes * block_size)
    mode = spec.quant_mode if keeps or spec.quant_mode is None else "NONE"
    token_bytes = spec.token_bytes
    if release.has(packed.PAGE_FORMULA_IN_SPEC):
        token_bytes = attention_token_bytes(
            release,
            num_kv_heads=spec.num_kv_heads,
            head_size=spec.head_size,
            head_size_v=value_head,
            dtype=spec.dtype,
            sliding=False,
            quant_mode=mode,
        )
    return FullAttentionSpec(
        block_size=block_size,
        num_kv_heads=spec.num_kv_heads,
        head_size=spec.head_size,
        head_size_v=value_head,
        dtype=spec.dtype,
        quant_mode=mode,
        token_bytes=token_bytes,
        page_size_padded=padded,
        indexes_by_block_stride=spec.indexes_by_block_stride,
        sliding_window=spec.sliding_window,
        chunk_size=spec.chunk_size if isinstance(spec, ChunkedLocalAttentionSpec) else None,
    )


def _unify_pages(specs: Specs, release: Release) -> Specs:
    """Smaller pages grow to the largest: by a larger block where it divides, else by padding where that is allowed."""
    largest = max(spec.page_bytes for spec in specs.values())
    unified: dict[str, LayerSpec] = {}
    for name, spec in specs.items():
        page = spec.page_bytes
        if page == largest:
            unified[name] = spec
            continue
        if isinstance(spec, MambaSpec) and release.has(state.STATE_PAGES_PADDED):
            grown: LayerSpec = replace(spec, page_size_padded=largest)
        elif largest % page == 0:
            grown = replace(spec, block_size=spec.block_size * (largest // page))
        elif _may_pad(spec, release):
            grown = replace(spec, page_size_padded=largest)
        else:
            raise _Refused(
                "NotImplementedError",
                PagesNotUnifiable(layer=name, page_bytes=page, largest_page_bytes=largest),
                _cannot_unify(name, release),
            )
        if grown.page_bytes != largest:
            raise BareAssertion(
                AssertionFails(
                    check="a layer's page does not reach the common page although its block was scaled to it",
                    layer=name,
                    page_bytes=grown.page_bytes,
                    common_page_bytes=largest,
                    padded_page_bytes=spec.page_size_padded,
                )
            )
        unified[name] = grown
    return unified


def _may_pad(spec: LayerSpec, release: Release) -> bool:
    if release.has(blocks.PAGES_PADDED_EXCEPT_MLA):
        return not isinstance(spec, MLAAttentionSpec)
    return release.has(blocks.PAGES_PADDED_BY_BLOCK_STRIDE) and spec.indexes_by_block_stride


def _cannot_unify(name: str, release: Release) -> str:
    if release.has(blocks.PAGES_PADDED_EXCEPT_MLA):
        why = "Padding is only supported for non-MLA attention layers."
    elif release.has(blocks.PAGES_PADDED_BY_BLOCK_STRIDE):
        why = (
            "Padding is only supported for attention layers whose backend indexes KV pages by the block stride "
            "(indexes_kv_by_block_stride is True)."
        )
    else:
        return (
            "The page size of the layer is not divisible by the maximum page size. Cannot unify by adjusting "
            "block_size."
        )
    return f"Layer {name}: page size is not divisible by the maximum page size and cannot be padded. {why}"


def _full_allocation(specs: Specs, release: Release) -> tuple[CacheGroup, ...] | None:
    """The way out for MLA beside ordinary sliding-window layers: allocate the latter as full attention."""
    if not release.has(blocks.FULL_ALLOCATION_FALLBACK):
        return None
    kinds = {type(spec) for spec in specs.values()}
    if MLAAttentionSpec not in kinds or SlidingWindowSpec not in kinds:
        return None
    try:
        promoted = _promote(specs, release)
    except _Refused:
        return None
    return (_uniform(promoted),) if same_type(list(promoted.values())) else None


def _by_pattern(specs: Specs, release: Release) -> tuple[tuple[CacheGroup, ...], Step]:
    """Split buckets of equal specs into groups of equal length, padding the last of each bucket.

    The length is the smallest bucket, or the largest where it is less than 1.5 (before 0.18: 1.25) times that.
    Gemma-3-27B, 52 sliding and 10 full layers: length 10, 6 + 1 groups, 8 padding layers.
    """
    buckets = _buckets(specs, release)
    sizes = [len(names) for names in buckets]
    factor = 1.5 if release.has(blocks.GROUP_SIZE_FACTOR_150) else 1.25
    length = max(sizes) if max(sizes) < min(sizes) * factor else min(sizes)
    groups: list[CacheGroup] = []
    padding = 0
    for names in buckets:
        count = ceil_div(len(names), length)
        padding += count * length - len(names)
        groups += [_plain(specs, names[i::count]) for i in range(count)]
    text = f"{len(groups)} groups of {length} layers" + (f", {padding} of them padding" if padding else "")
    return tuple(groups), Step(
        Stage.GROUPING,
        "groups",
        text,
        f"buckets of {', '.join(map(str, sizes))} layers with equal specs",
        behaviour=blocks.GROUP_SIZE_FACTOR_150,
    )


def _buckets(specs: Specs, release: Release) -> list[list[str]]:
    equal: dict[LayerSpec, list[str]] = {}
    for name, spec in specs.items():
        equal.setdefault(spec, []).append(name)
    if not release.has(blocks.BUCKETS_MERGED):
        return list(equal.values())
    merged: list[tuple[list[LayerSpec], list[str]]] = []
    for spec, names in equal.items():
        for members, bucket in merged:
            try:
                if not can_merge([*members, spec]):
                    continue
            except ValueError:
                continue
            members.append(spec)
            bucket.extend(names)
            break
        else:
            merged.append(([spec], list(names)))
    return [names for _, names in merged]


def _packed(specs: Specs, release: Release) -> tuple[CacheGroup, ...] | None:
    """Groups for a block-outermost layout: layers of different pages lie side by side in one block.

    Layers are put into buckets of one type. A bucket with equally many layers of every page is a repeating pattern;
    the pattern with the fewest wasted repeats is cut into groups of equally many repeats.
    """
    if len({spec.page_bytes for spec in specs.values()}) <= 1:
        return None
    buckets: dict[tuple[object, ...], dict[str, LayerSpec]] = {}
    for name, spec in specs.items():
        buckets.setdefault((spec.block_size, spec.type_key), {})[name] = spec
    patterns = [_Pattern.of(bucket) for bucket in buckets.values()]
    floor = max((p.repeats for p in patterns if p.balanced and len(p.by_page) > 1), default=0)
    repeats = cheapest_divisor([p.repeats for p in patterns if p.balanced], floor) if floor else None

    def parts(pattern: _Pattern) -> int:
        return ceil_div(pattern.repeats, repeats) if pattern.balanced and repeats is not None else 1

    def shrinks(pattern: _Pattern) -> bool:
        first = next(iter(pattern.bucket.values()))
        if isinstance(first, MambaSpec):
            return True
        if not release.has(blocks.PACKED_RINGS_AND_WINDOWS_SHRINK):
            return False
        return isinstance(first, CircularBufferSpec) or (repeats is None and isinstance(first, SlidingWindowSpec))

    anchor = max(p.widest(len(p.bucket) if shrinks(p) else parts(p)) for p in patterns)
    groups: list[CacheGroup] = []
    for pattern in patterns:
        count = parts(pattern)
        if anchor and shrinks(pattern):
            first = next(iter(pattern.bucket.values()))
            count = max(count, ceil_div(len(pattern.bucket), max(anchor // first.page_bytes, 1)))
        if count == 1:
            groups.append(_uniform(pattern.bucket))
            continue
        rows = list(zip(*pattern.by_page.values(), strict=False))
        for part in range(count):
            names = [name for row in rows[part::count] for name in row]
            groups.append(_uniform({name: pattern.bucket[name] for name in names}))
    return tuple(groups)


@dataclass(frozen=True, slots=True)
class _Pattern:
    bucket: dict[str, LayerSpec]
    by_page: dict[int, list[str]]

    @staticmethod
    def of(bucket: dict[str, LayerSpec]) -> _Pattern:
        by_page: dict[int, list[str]] = {}
        for name, spec in bucket.items():
            by_page.setdefault(spec.page_bytes, []).append(name)
        return _Pattern(bucket, by_page)

    @property
    def balanced(self) -> bool:
        """Whether every page size has equally many layers."""
        return len({len(names) for names in self.by_page.values()}) == 1

    @property
    def repeats(self) -> int:
        """Layers of the most frequent page size."""
        return max(len(names) for names in self.by_page.values())

    def widest(self, parts: int) -> int:
        """Page bytes of the largest of `parts` groups."""
        return sum(ceil_div(len(names), parts) * page for page, names in self.by_page.items())
