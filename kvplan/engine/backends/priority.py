"""The order in which vLLM's CUDA platform tries the backends (vllm/platforms/cuda.py)."""

from __future__ import annotations

from kvplan.engine.backends.software import passes_for_quantised
from kvplan.engine.backends.values import BackendQuery
from kvplan.history import backends as history
from kvplan.releases import Release

FEW_HEADS = 16
"""Query heads a rank up to which FlashInfer's sparse MLA kernels are preferred."""


def order(query: BackendQuery, release: Release) -> tuple[str, ...]:
    """Backend names, most preferred first."""
    return _latent(query, release) if query.use_mla else _standard(query, release)


def _standard(query: BackendQuery, release: Release) -> tuple[str, ...]:
    flash_first = query.major != 10 or (query.use_non_causal and release.has(history.NON_CAUSAL_PREFERS_FLASH_ATTN))
    pair = ("FLASH_ATTN", "FLASHINFER") if flash_first else ("FLASHINFER", "FLASH_ATTN")
    composite: tuple[str, ...] = ()
    if query.use_mm_prefix and release.has(history.COMPOSITES_FOR_MM_PREFIX):
        if not flash_first:
            composite = ("TRITON_FLASHINFER",)
        elif query.major == 9:
            composite = ("TRITON_FLASH_ATTN",)
    last = ("TURBOQUANT",) if release.has(history.TURBOQUANT_OFFERED) else ()
    return (*composite, *pair, "TRITON_ATTN", "FLEX_ATTENTION", *last)


def _latent(query: BackendQuery, release: Release) -> tuple[str, ...]:
    if query.major == 10:
        tokenspeed = ("TOKENSPEED_MLA",) if release.has(history.TOKENSPEED_MLA_OFFERED) else ()
        dense = ("CUTLASS_MLA", "FLASH_ATTN_MLA", "FLASHMLA", "TRITON_MLA")
        return ("FLASHINFER_MLA", *tokenspeed, *dense, *_sparse_on_sm10x(query, release))
    if query.major == 12 and release.has(history.SM12X_HAS_OWN_MLA_ORDER):
        return ("TRITON_MLA", "FLASHINFER_MLA_SPARSE_SM120")
    dense = ("FLASH_ATTN_MLA", "FLASHMLA", "FLASHINFER_MLA", "TRITON_MLA")
    sparse: tuple[str, ...] = ("FLASHMLA_SPARSE",)
    if release.has(history.FLASH_ATTN_MLA_SPARSE_OFFERED):
        sparse = ("FLASH_ATTN_MLA_SPARSE", *sparse)
    if release.has(history.FLASHINFER_SM90_SPARSE_OFFERED):
        flashinfer = ("FLASHINFER_MLA_SPARSE_SM90",)
        sparse = flashinfer + sparse if query.head_size == 512 else sparse + flashinfer
    return (*dense, *sparse)


def _sparse_on_sm10x(query: BackendQuery, release: Release) -> tuple[str, ...]:
    if not release.has(history.SPARSE_ORDER_BY_HEADS):
        return ("FLASHMLA_SPARSE",)
    flashinfer_first = ("FLASHINFER_MLA_SPARSE", "FLASHMLA_SPARSE")
    quantised = passes_for_quantised(query.kv_cache_dtype, release)
    if quantised and release.has(history.SPARSE_ORDER_BY_CACHE_DTYPE):
        return flashinfer_first
    if query.num_heads > FEW_HEADS:
        return ("FLASHMLA_SPARSE", "FLASHINFER_MLA_SPARSE")
    if release.has(history.FA4_SPARSE_MLA_FIRST):
        return ("FLASH_ATTN_MLA_SPARSE_FA4", *flashinfer_first)
    return flashinfer_first
