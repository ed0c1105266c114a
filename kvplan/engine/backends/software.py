"""What the libraries of vLLM's CUDA wheel can do on a GPU: FlashAttention versions, TRT-LLM kernels, quantisation.

The wheel carries FlashAttention 2 (compute capability 8.0 and up), 3 (9.x) and 4 (9.x, 10.x, 11.x), FlashMLA and
FlashInfer with its cubins.
"""

from __future__ import annotations

from kvplan.engine.backends.values import BackendQuery
from kvplan.history import backends as history
from kvplan.releases import Release

_PINS_FA2 = ("turboquant_", "ultraquant_")
FA4_MAJORS = (9, 10, 11)
"""Compute capabilities that FlashAttention 4 runs on."""
FA4_HEAD_256_PAGE = 128
"""Tokens in a page of FlashAttention 4's head-size-256 kernel."""


def passes_for_quantised(cache_dtype: str, release: Release) -> bool:
    """The release's own test whether a cache dtype string is quantised, which grew with the dtypes and missed some."""
    if cache_dtype.startswith("fp8"):
        return True
    if release.has(history.QUANTISED_MEANS_FP8):
        return False
    if release.has(history.QUANTISED_BY_MODE):
        return cache_dtype not in ("auto", "float16", "bfloat16")
    return cache_dtype.endswith("per_token_head") or cache_dtype.startswith("nvfp4")


def fa_supported(version: int, query: BackendQuery) -> bool:
    """Whether FlashAttention `version` runs on this compute capability."""
    if version == 2:
        return query.major >= 8
    if version == 3:
        return query.major == 9
    return query.major in FA4_MAJORS


def fa_version(
    query: BackendQuery,
    release: Release,
    *,
    head_size: int | None = None,
    head_size_v: int | None = None,
    has_sinks: bool = False,
    block_size: int | None = None,
    head_256_kernel: bool = False,
) -> int | None:
    """The FlashAttention version that vLLM resolves to; None when the wanted one cannot run.

    The keywords are what the caller tells: most checks ask without a head size and hear of small heads.
    `head_256_kernel` says that the caller can work with the Blackwell kernel for head size 256.
    """
    major = query.major
    if major == 9:
        version = 3
    elif major == 10 and release.has(history.FA4_ON_BLACKWELL):
        version = 4
    else:
        version = 2
    if query.flash_attn_version is not None:
        version = query.flash_attn_version
    if query.run_dtype.startswith(_PINS_FA2):
        # Engine arguments pin version 2 for the whole run, layers that skip the quantisation included.
        version = 2
    if version == 3 and major >= 10:
        version = 4 if release.has(history.FA4_ON_BLACKWELL) and fa_supported(4, query) else 2
    if version == 3 and major == 9 and _needs_fa4(query, release, head_size, head_size_v, has_sinks):
        version = 4
    if version == 4 and query.use_batch_invariant and release.has(history.FA4_NEEDS_BATCH_VARIANCE):
        version = 2
    if version == 4 and major >= 10 and head_size is not None:
        if head_256_kernel and uses_head_256_kernel(query, head_size, head_size_v):
            head_256_kernel = not _excluded_from_head_256(query, release, has_sinks, block_size)
        version = 4 if _fits_blackwell(release, head_size, head_size_v, head_256_kernel) else 2
    return version if fa_supported(version, query) else None


def _needs_fa4(
    query: BackendQuery, release: Release, head_size: int | None, head_size_v: int | None, has_sinks: bool
) -> bool:
    """Whether a case that FlashAttention 3 cannot do on Hopper moves to version 4."""
    if head_size is not None and head_size > 256 and release.has(history.FA4_FOR_LARGE_HEADS):
        return True
    differs = None not in (head_size, head_size_v) and head_size != head_size_v
    if has_sinks and differs and release.has(history.FA4_FOR_DIFFERENT_VALUES_WITH_SINKS):
        return True
    return query.is_diffusion and release.has(history.FA4_FOR_DIFFUSION)


def _fits_blackwell(release: Release, head_size: int, head_size_v: int | None, head_256_kernel: bool) -> bool:
    """Whether FlashAttention 4 takes the head size on Blackwell (its tensor memory is small)."""
    if head_size <= 128:
        return True
    if head_size == 192:
        if release.has(history.FA4_HEAD_192_NEEDS_VALUE_128):
            return head_size_v == 128
        return release.has(history.FA4_TAKES_HEAD_192)
    if head_size != 256:
        return False
    if release.has(history.FA4_HEAD_256_OPEN):
        return True
    return release.has(history.FA4_HEAD_256_KERNEL) and head_256_kernel and head_size_v in (None, 256)


def uses_head_256_kernel(query: BackendQuery, head_size: int | None, head_size_v: int | None) -> bool:
    """Whether FlashAttention 4 would use its dedicated head-size-256 kernel here."""
    return head_size == 256 and head_size_v in (None, 256) and query.major in (10, 11)


def _excluded_from_head_256(query: BackendQuery, release: Release, has_sinks: bool, block_size: int | None) -> bool:
    return (
        has_sinks
        or query.logits_soft_cap
        or passes_for_quantised(query.run_dtype, release)
        or (block_size is not None and block_size % FA4_HEAD_256_PAGE != 0)
        or query.use_mm_prefix
        or query.use_rswa
        or query.dcp_size > 1
    )


def fa_takes_fp8(
    query: BackendQuery,
    release: Release,
    *,
    head_size: int | None = None,
    head_size_v: int | None = None,
    has_sinks: bool = False,
    block_size: int | None = None,
) -> bool:
    """Whether FlashAttention reads an e4m3 cache, asked with or without the layer's head size (0.27 and later)."""
    if query.kv_cache_dtype == "fp8_e5m2":
        return False
    version = fa_version(
        query,
        release,
        head_size=head_size,
        head_size_v=head_size_v,
        has_sinks=has_sinks,
        block_size=block_size,
        head_256_kernel=head_size is not None,
    )
    if query.major == 9:
        by_fa4 = version == 4 and head_size in (None, 512)
        return version == 3 or (by_fa4 and release.has(history.FLASH_ATTN_FP8_FA4_ON_SM90))
    return query.major == 10 and version == 4


def trtllm_supported(query: BackendQuery, release: Release, *, prefill: bool = False) -> bool:
    """Whether FlashInfer's TRT-LLM attention kernels run on this GPU, for prefill or for decode."""
    if query.use_batch_invariant:
        return False
    if query.capability == (9, 0) and release.has(history.TRTLLM_DECODE_BEYOND_BLACKWELL):
        return not prefill
    if query.major == 12 and release.has(history.TRTLLM_DECODE_ON_SM12X):
        return not prefill
    return query.major == 10


def trtllm_usable(query: BackendQuery, release: Release) -> bool:
    """Whether TRT-LLM decode can serve the model's heads, and was not switched off."""
    heads, kv_heads = query.heads_of_model
    return (
        query.use_trtllm_attention is not False
        and trtllm_supported(query, release)
        and kv_heads > 0
        and heads % kv_heads == 0
    )
