"""The forms of a model's own caches, and the dimensions of latent attention."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Form(StrEnum):
    """Which spec class a model's own cache module returns."""

    FULL = "full"
    """`FullAttentionSpec`."""
    LATENT = "latent"
    """`MLAAttentionSpec`: one row a state, no value."""
    WINDOW = "window"
    """`SlidingWindowSpec`."""
    WINDOW_LATENT = "window_latent"
    """`SlidingWindowMLASpec`: one row a token, only those in the window."""
    RING = "ring"
    """`CircularBufferSpec`: one block a request, overwritten in place."""
    HIDDEN_STATES = "hidden_states"
    """`HiddenStateCacheSpec`: hidden states of some layers, in old releases under a latent spec."""
    TAIL_RING = "tail_ring"
    """`KpoolTailSpec`, the ring of the releases before they shared one class."""


@dataclass(frozen=True, slots=True)
class Latent:
    """The dimensions of multi-head latent attention (elements per head or per latent row)."""

    kv_lora_rank: int
    qk_rope_head_dim: int
    qk_nope_head_dim: int
    v_head_dim: int
    sparse: bool = False
    index_topk: int | None = None
