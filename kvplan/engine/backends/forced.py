"""Choices made before any layer asks: the 0.16–0.17 guess for MLA, and model hooks that force a backend."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from kvplan.engine.backends.selection import BY_NAME, reasons, select
from kvplan.engine.backends.software import fa_supported, fa_version
from kvplan.engine.backends.values import BackendDecision, BackendQuery
from kvplan.history import backends as history
from kvplan.releases import Release


@dataclass(frozen=True, slots=True)
class Forced:
    """What a hook writes into the attention config; None leaves the field to the operator or to selection."""

    backend: str | None = None
    flash_attn_version: int | None = None


def heterogeneous_heads(head_sizes: Iterable[int], query: BackendQuery, release: Release) -> Forced:
    """The choice for models whose layers differ in head size and whose config hook cares (Gemma 4).

    `head_sizes` are those of the model's layers (elements). The answer keeps what the operator asked for.
    """
    asked = Forced(query.wanted, query.flash_attn_version)
    sizes = set(head_sizes)
    if len(sizes) < 2:
        return asked
    if release.has(history.HETEROGENEOUS_HEADS_FORCE_TRITON):
        force = query.wanted is None and max(sizes) > 256
        return Forced("TRITON_ATTN", query.flash_attn_version) if force else asked
    if not release.has(history.HETEROGENEOUS_HEADS_PREFER_FA4):
        return asked
    if not fa_supported(4, query) or max(sizes) > 512:
        return Forced("TRITON_ATTN", query.flash_attn_version) if query.wanted is None else asked
    if query.flash_attn_version is not None or query.wanted not in (None, "FLASH_ATTN"):
        return asked
    by_layer = release.has(history.HETEROGENEOUS_HEADS_FP8_PER_LAYER)
    if by_layer and query.major == 9 and query.run_dtype.startswith("fp8"):
        return asked
    return Forced(query.wanted, 4)


def different_values(query: BackendQuery, release: Release) -> str:
    """The backend that a model with value rows unlike its key rows brings along (MiMo-V2 and the like)."""
    if not release.has(history.DIFFERENT_VALUES_MAY_USE_TRITON):
        return "FLASH_ATTN_DIFFKV"
    if query.wanted is not None and query.wanted.endswith("_DIFFKV"):
        return query.wanted
    version = fa_version(
        query, release, head_size=query.head_size, head_size_v=query.head_size_v, has_sinks=query.has_sink
    )
    return "FLASH_ATTN_DIFFKV" if version in (3, 4) else "TRITON_ATTN_DIFFKV"


def sparse_with_sinks(query: BackendQuery, release: Release) -> BackendDecision:
    """The choice for sparse MLA layers whose checkpoint has learnable sinks (HY-V4).

    The layer is selected as though it had none; then a FLASHMLA_SPARSE variant that applies sinks replaces the
    result wherever FLASHMLA_SPARSE itself would be valid. Elsewhere vLLM runs the layer without its sinks.
    """
    plain = replace(query, has_sink=False)
    decision = select(plain, release)
    if decision.backend is None:
        # The model's code asks beforehand, and puts its own words in the place of the selector's.
        return replace(
            decision,
            error="HYV4 sparse attention was requested, but no valid sparse MLA backend is available for current "
            "runtime/config. Refusing to fall back to dense attention.",
            error_type="RuntimeError",
        )
    # vLLM validates the variant without the context-parallel and connector questions.
    alone = replace(plain, use_dcp=False, use_pcp=False, use_batch_invariant=False)
    if reasons(BY_NAME["FLASHMLA_SPARSE"], alone, release):
        return decision
    return replace(decision, backend="FLASHMLA_SPARSE")


@dataclass(frozen=True, slots=True)
class ConfigTime:
    """What the CUDA platform settles while the config is checked (0.16 and 0.17)."""

    backend: str | None
    """The backend written into the config as though the operator had asked for it; None leaves it open."""
    block_size: int
    """Tokens a block after the platform's corrections."""


def mla_config_time(query: BackendQuery, release: Release) -> ConfigTime | None:
    """Backend and block size that 0.16 and 0.17 settle at config time; None in releases that do not.

    `query.block_size` is the operator's value. MLA models get the block size of the backend that the platform
    guesses, which overwrites the operator's; other models get 16 where nothing was given.
    """
    if not release.has(history.MLA_BACKEND_AT_CONFIG_TIME):
        return None
    size = 16 if query.block_size is None else query.block_size
    if not query.use_mla:
        return ConfigTime(query.wanted, size)
    sparse = query.latent is not None and query.latent.index_topk is not None
    backend = query.wanted
    guess = backend
    if backend is None and not sparse and query.major == 10:
        nope = 1 if query.latent is None else query.latent.qk_nope_head_dim
        if nope == 128:
            backend = guess = "FLASHINFER_MLA"
        else:
            guess = "CUTLASS_MLA"
    elif backend is None and query.major == 9:
        guess = "FLASHMLA"
    if guess == "FLASHMLA" and query.major == 9 and size % 64 != 0:
        size = 64
    if guess == "CUTLASS_MLA" and size % 128 != 0:
        size = 128
    if guess == "FLASHINFER_MLA" and size != 32 and size % 64 != 0:
        size = 64
    if sparse:
        with_32 = guess == "FLASHINFER_MLA_SPARSE" and release.has(history.CONFIG_TIME_KNOWS_FLASHINFER_SPARSE)
        if not (with_32 and size == 32):
            size = 64
    return ConfigTime(backend, size)
