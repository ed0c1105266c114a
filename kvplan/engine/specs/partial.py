"""Specs of layers that keep a part of the text or something else than the text: chunks, encoder output, sinks, R-SWA.

Page formulas are those of plain attention: block_size * H * (D + Dv) * e bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

from kvplan.engine.specs.base import AttentionSpec, FullAttentionSpec, RequestLimits, ceil_div


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkedLocalAttentionSpec(AttentionSpec):
    """Only the chunk that a token belongs to stays, plus what is in flight (Llama 4)."""

    chunk_size: int

    @property
    def type_key(self) -> tuple[object, ...]:
        """Layers with one chunk size are of one type."""
        return ("chunked", self.chunk_size)

    def request_blocks(self, limits: RequestLimits) -> int:
        """The chunk and the tokens in flight, never more than the request.

        Llama 4, chunks of 8,192 and 2 * 8,192 in flight: 24,576 tokens, 1,536 blocks of 16.
        """
        return ceil_div(min(self.chunk_size + limits.in_flight_tokens, limits.max_model_len), self.block_size)


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossAttentionSpec(AttentionSpec):
    """Keys and values of the encoder's output: as many tokens as the encoder may be given, whatever the text."""

    @property
    def type_key(self) -> tuple[object, ...]:
        """All cross-attention layers are of one type."""
        return ("cross",)

    def request_blocks(self, limits: RequestLimits) -> int:
        """Blocks for the longest encoder input: 8,192 tokens are 512 blocks of 16."""
        return ceil_div(limits.encoder_tokens, self.block_size)


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkFullAttentionSpec(FullAttentionSpec):
    """Full attention with learned tokens in front, which live in blocks that all requests share."""

    sink_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RSWASpec(FullAttentionSpec):
    """Attention that sees the prompt and a window of what is generated; the cache still keeps every token."""

    rswa_window: int
