"""Specs of caches that models lay out themselves: sliding latent rows, rings, compressed rows.

Page formulas (bytes), with e bytes an element:

- `SlidingWindowMLASpec`: block_size * row * e (DeepSeek-V4 packed: block_size * 584), padded to the alignment
- `CircularBufferSpec`, `KpoolTailSpec`: ring tokens * heads * (row + value row) * e, one block a request
"""

from __future__ import annotations

from dataclasses import dataclass

from kvplan.engine.specs.base import (
    AttentionSpec,
    MLAAttentionSpec,
    RequestLimits,
    SlidingWindowSpec,
    pad_to_alignment,
)
from kvplan.history import compressed
from kvplan.releases import Release


@dataclass(frozen=True, slots=True, kw_only=True)
class SlidingWindowMLASpec(SlidingWindowSpec):
    """Latent rows of the tokens in the window."""

    cache_dtype: str | None = None
    alignment: int | None = None
    bounded_replay: bool = False
    """Whether the group stays out of prefix caching and replays its window instead."""

    def __post_init__(self) -> None:
        """Pad the page to whole alignment units."""
        pad_to_alignment(self, self.alignment)

    @property
    def type_key(self) -> tuple[object, ...]:
        """Layers with one window and one replay policy are of one type."""
        return ("sliding_latent", self.sliding_window, self.bounded_replay)

    @property
    def shares_prefixes(self) -> bool:
        """Not where the window is replayed."""
        return not self.bounded_replay


@dataclass(frozen=True, slots=True, kw_only=True)
class HiddenStateCacheSpec(MLAAttentionSpec):
    """Hidden states of some of the target's layers, side by side: a row of them for every token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CircularBufferSpec(AttentionSpec):
    """One block a request, whose `block_size` slots are overwritten in turn."""

    @property
    def shares_prefixes(self) -> bool:
        """A slot that is overwritten serves nobody else."""
        return False

    @property
    def type_key(self) -> tuple[object, ...]:
        """Rings of one capacity are of one type."""
        return ("ring",)

    def request_blocks(self, _limits: RequestLimits) -> int:
        """One, whatever the length."""
        return 1


@dataclass(frozen=True, slots=True, kw_only=True)
class KpoolTailSpec(SlidingWindowSpec):
    """The ring of an indexer's unfinished pool, while it was still a kind of sliding window."""

    @property
    def type_key(self) -> tuple[object, ...]:
        """Rings of one capacity are of one type."""
        return ("kpool_tail",)

    def request_blocks(self, _limits: RequestLimits) -> int:
        """One, whatever the length."""
        return 1


def promote_latent(spec: SlidingWindowMLASpec, block_size: int, release: Release) -> MLAAttentionSpec:
    """The full latent spec that a sliding one becomes where the hybrid manager is off."""
    keeps = release.has(compressed.PROMOTED_LATENT_KEEPS_LAYOUT)
    return MLAAttentionSpec(
        block_size=block_size,
        num_kv_heads=spec.num_kv_heads,
        head_size=spec.head_size,
        head_size_v=spec.head_size_v,
        dtype=spec.dtype,
        quant_mode=spec.quant_mode if keeps or spec.quant_mode is None else "NONE",
        token_bytes=spec.token_bytes,
        page_size_padded=_grown_padding(spec, block_size, release),
        cache_dtype=spec.cache_dtype,
        alignment=spec.alignment,
        sliding_window=spec.sliding_window if keeps else None,
    )


def _grown_padding(spec: SlidingWindowMLASpec, block_size: int, release: Release) -> int | None:
    if spec.page_size_padded is None or not release.has(compressed.PROMOTION_GROWS_PADDING):
        return spec.page_size_padded
    return max(spec.page_size_padded, spec.token_bytes * block_size)
