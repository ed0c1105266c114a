"""Architectures with cache layers of kinds that this package does not compute, and why."""

from __future__ import annotations

REASONS: dict[str, str] = {
    "compressed": "its layers keep compressed caches (DeepSeek-V4)",
    "convolution": "its layers keep short-convolution caches beside attention",
    "draft": "it is a draft model for speculative decoding, not a model to serve",
    "draft_unread": "which caches this draft has is not known",
    "none": "its layers are not vLLM attention layers",
    "pooled": "its audio encoder keeps pooled caches",
    "ring": "its layers keep summary or ring-buffer caches beside attention",
    "state": "it has state layers (Mamba, linear attention or short convolution) beside attention",
    "unread": "how its class names and builds its layers is not known",
    "window_mla": "its latent layers slide",
}
"""By the `kind` column of registered.tsv."""
