"""How a backend is written down: one row of facts, dated where releases differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Generic, TypeAlias, TypeVar

from kvplan.engine.backends.values import BackendQuery, KernelBlockSize, MultipleOf
from kvplan.releases import Release, Span

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Dated(Generic[T]):
    """A table cell whose value changed between releases: the first value, then those that replaced it, in order."""

    first: T
    changes: tuple[tuple[Span, T], ...] = ()

    def at(self, release: Release) -> T:
        """The value that holds in `release`."""
        value = self.first
        for span, later in self.changes:
            if release.within(span):
                value = later
        return value


def always(first: T, *changes: tuple[str, T]) -> Dated[T]:
    """A dated cell, written as a row: the oldest value, then each later one with its first release."""
    return Dated(first, tuple((Span(since=since), later) for since, later in changes))


class Feature(StrEnum):
    """What a layer or launch may need of a backend; a row says from which release it is there."""

    SINK = "sink"
    MM_PREFIX = "mm_prefix"
    PER_HEAD_SCALES = "per_head_scales"
    SLIDING_WINDOW = "sliding_window"
    RSWA = "rswa"
    NON_CAUSAL = "non_causal"
    NON_CAUSAL_DCP = "non_causal_dcp"
    BATCH_INVARIANT = "batch_invariant"
    PCP = "pcp"
    DCP = "dcp"
    QUERY_LENS_MISMATCH = "query_lens_mismatch"


Judge: TypeAlias = Callable[[BackendQuery, Release], bool]
Objection: TypeAlias = Callable[[BackendQuery, Release], "str | None"]
BlockSizes: TypeAlias = Callable[[BackendQuery, Release, bool], tuple[KernelBlockSize, ...]]

FLOAT16 = ("float16", "bfloat16")
ALL_FLOATS = ("float16", "bfloat16", "float32")
ALL_TYPES = ("decoder", "encoder", "encoder_only", "encoder_decoder")
PLAIN = always(("auto", "bfloat16"), ("0.18.1", ("auto", "float16", "bfloat16")))
"""Unquantised cache dtypes; `float16` became a cache dtype of its own in 0.18."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend(Span):
    """One attention backend as vLLM's class declares it, in the releases of its span.

    Callables answer where a table cell cannot. Empty `head_sizes` or `cache_dtypes` accept anything. `majors` empty
    means any GPU from `min_capability` to `max_capability`.
    """

    name: str
    mla: bool = False
    sparse: bool = False
    ssm: bool = False
    majors: tuple[int, ...] = ()
    min_capability: Dated[tuple[int, int]] = field(default=Dated((0, 0)))
    max_capability: Dated[tuple[int, int]] = field(default=Dated((99, 9)))
    head_sizes: Dated[tuple[int, ...]] = field(default=Dated(()))
    dtypes: tuple[str, ...] = FLOAT16
    cache_dtypes: Dated[tuple[str, ...]] = field(default=PLAIN)
    attn_types: tuple[str, ...] = ("decoder",)
    block_sizes: Dated[tuple[KernelBlockSize, ...]] = field(default=Dated((MultipleOf(16),)))
    features: Mapping[Feature, Span] = field(default_factory=dict)
    """What it offers, and in which releases."""
    feature_checks: Mapping[Feature, Judge] = field(default_factory=dict)
    """Features that depend on the question; a check replaces the date above."""
    accepts_head_size: Judge | None = None
    accepts_cache_dtype: Judge | None = None
    accepts_block_size: Judge | None = None
    kernel_block_sizes: BlockSizes | None = None
    combination: Objection | None = None
    """The objection that vLLM words itself, checked last."""
    preferred_block_size: int | None = None
    """Block size preferred whatever the default is (backends that override the general rule)."""
    block_stride: Dated[bool] = field(default=Dated(False))
    """Whether kernels address pages by block stride, so that pages may be padded (0.24 to 0.28)."""
    layouts: Dated[tuple[str, ...] | None] = field(default=Dated(None))
    """KV cache layouts it can work with (from 0.29), best first; None: any."""
    layout_check: Callable[[BackendQuery, Release], tuple[str, ...] | None] | None = None

    def has(self, feature: Feature, query: BackendQuery, release: Release) -> bool:
        """Whether the backend offers `feature` for this question in this release."""
        check = self.feature_checks.get(feature)
        if check is not None:
            return check(query, release)
        return feature in self.features and release.within(self.features[feature])

    def sizes(self, query: BackendQuery, release: Release, of_layer: bool = False) -> tuple[KernelBlockSize, ...]:
        """Kernel block sizes, asked for the run (as config time does) or for one layer's spec."""
        if self.kernel_block_sizes is not None:
            return self.kernel_block_sizes(query, release, of_layer)
        return self.block_sizes.at(release)

    def takes_head_size(self, query: BackendQuery, release: Release) -> bool:
        """Whether kernels exist for the layer's head size."""
        if self.accepts_head_size is not None:
            return self.accepts_head_size(query, release)
        sizes = self.head_sizes.at(release)
        return not sizes or query.head_size in sizes

    def takes_cache_dtype(self, query: BackendQuery, release: Release) -> bool:
        """Whether the class claims the layer's cache dtype string."""
        if self.accepts_cache_dtype is not None:
            return self.accepts_cache_dtype(query, release)
        dtypes = self.cache_dtypes.at(release)
        return not dtypes or query.kv_cache_dtype in dtypes

    def takes_capability(self, query: BackendQuery, release: Release) -> bool:
        """Whether it runs on GPUs of this compute capability."""
        if self.majors:
            return query.major in self.majors
        return self.min_capability.at(release) <= query.capability <= self.max_capability.at(release)

    def takes_block_size(self, size: int | None, query: BackendQuery, release: Release) -> bool:
        """Whether `size` tokens (None: not given) can be cut into its kernel blocks."""
        if size is None:
            return True
        if self.accepts_block_size is not None:
            return self.accepts_block_size(replace(query, block_size=size), release)
        sizes = self.sizes(query, release)
        return not sizes or any(size % _base(kernel) == 0 for kernel in sizes)


def _base(size: KernelBlockSize) -> int:
    return size.base if isinstance(size, MultipleOf) else size
