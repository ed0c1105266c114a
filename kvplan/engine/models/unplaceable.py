"""Architectures with cache layers of kinds that this package does not compute, and why."""

from __future__ import annotations

REASONS: dict[str, str] = {
    "draft": "it is a draft model for speculative decoding, not a model to serve",
    "draft_unread": "which caches this draft has is not known",
    "none": "its layers are not vLLM attention layers",
    "pooled": "its audio encoder keeps pooled caches",
    "state": "it has state layers (Mamba, linear attention or short convolution) beside attention",
    "unread": "how its class names and builds its layers is not known",
}
"""By the `kind` column of registered.tsv."""
