"""The backends of ordinary (non-MLA) attention: one row each, with the checks that a row cannot hold.

Facts from vllm/v1/attention/backends/*.py of each release.
"""

from __future__ import annotations

from dataclasses import replace

from kvplan.engine.backends.facts import ALL_FLOATS, ALL_TYPES, Backend, Feature, always
from kvplan.engine.backends.software import (
    FA4_HEAD_256_PAGE,
    fa_supported,
    fa_takes_fp8,
    fa_version,
    passes_for_quantised,
    trtllm_supported,
    trtllm_usable,
    uses_head_256_kernel,
)
from kvplan.engine.backends.values import BackendQuery, KernelBlockSize, MultipleOf
from kvplan.engine.cache_dtypes.packing import TURBOQUANT_BITS
from kvplan.history import backends as history
from kvplan.releases import ALWAYS, Release, Span

_BLACKWELL_LAYOUTS = ("LBHNC", "BLHNC")


def _flash_attn_head_size(query: BackendQuery, release: Release) -> bool:
    if query.head_size % 8 != 0:
        return False
    if query.head_size <= 256:
        return True
    return release.has(history.FLASH_ATTN_HEADS_TO_512) and fa_supported(4, query) and query.head_size <= 512


def _flash_attn_cache_dtype(query: BackendQuery, release: Release) -> bool:
    dtype = query.kv_cache_dtype
    if dtype in ("auto", "bfloat16", "float16"):
        return True
    if release.has(history.FLASH_ATTN_CLAIMS_ANY_FP8):
        claimed = dtype.startswith("fp8")
    elif release.has(history.FLASH_ATTN_CLAIMS_ANY_QUANTISED):
        claimed = passes_for_quantised(dtype, release)
    else:
        claimed = dtype in ("fp8", "fp8_e4m3")
    if not claimed:
        return False
    if release.has(history.FLASH_ATTN_FP8_BY_COMBINATION):
        return fa_takes_fp8(query, release)
    return query.major == 9 and fa_version(query, release) == 3


def _flash_attn_sink(query: BackendQuery, release: Release) -> bool:
    versions = (3, 4) if release.has(history.FLASH_ATTN_SINKS_ON_FA4) else (3,)
    return fa_version(query, release) in versions


def _flash_attn_per_head(query: BackendQuery, release: Release) -> bool:
    return (fa_version(query, release) or 0) >= 3


def _flash_attn_mm_prefix(query: BackendQuery, release: Release) -> bool:
    return release.has(history.FLASH_ATTN_MM_PREFIX) and fa_supported(4, query)


def flash_attn_version_of_layer(query: BackendQuery, release: Release) -> int | None:
    """FlashAttention version resolved for the layer's head size, as the combination checks ask."""
    return fa_version(
        query,
        release,
        head_size=query.head_size,
        has_sinks=query.has_sink,
        block_size=query.block_size,
        head_256_kernel=True,
    )


def _flash_attn_combination(query: BackendQuery, release: Release) -> str | None:
    if query.has_sink and query.capability < (9, 0):
        return "sink not supported on compute capability < 9.0"
    quantised = passes_for_quantised(query.kv_cache_dtype, release)
    on_sm90 = release.has(history.FLASH_ATTN_FP8_FA4_ON_SM90)
    if query.use_mm_prefix and quantised and query.capability == (9, 0) and on_sm90:
        return "SM90 FP8 KV with mm_prefix requires Triton"
    if quantised and release.has(history.FLASH_ATTN_FP8_BY_COMBINATION):
        fits = fa_takes_fp8(
            query,
            release,
            head_size=query.head_size,
            head_size_v=query.head_size,
            has_sinks=query.has_sink,
            block_size=query.block_size,
        )
        if not fits:
            where = "FA3 on SM90, FA4 with head_size=512 on SM90, or FA4 on SM100"
            return f"FP8 KV cache requires {where if on_sm90 else 'FA3 on SM90 or FA4 on SM100'}"
    wants_mask = query.use_mm_prefix and release.has(history.FLASH_ATTN_MM_PREFIX)
    if wants_mask and flash_attn_version_of_layer(query, release) != 4:
        return (
            "mm_prefix (PrefixLM bidirectional attention) requires FlashAttention v4, "
            "which does not resolve for this head_size"
        )
    return None


def _flash_attn_block_sizes(query: BackendQuery, release: Release, of_layer: bool) -> tuple[KernelBlockSize, ...]:
    small = release.has(history.FLASH_ATTN_SMALL_BLOCKS_FOR_FLOAT32_STATE)
    if small and query.is_hybrid and query.state_cache_float32:
        return (16, 32, 64)
    fixed = flash_attn_fixed_page(query, release, of_layer)
    return (MultipleOf(16),) if fixed is None else (fixed,)


def flash_attn_fixed_page(query: BackendQuery, release: Release, of_layer: bool) -> int | None:
    """The one page size (tokens) that FLASH_ATTN's kernel takes in special cases, else None.

    Asked for a layer (0.31 and later) it looks at the layer's head size and cache dtype, otherwise at the model's.
    """
    of_layer = of_layer and release.has(history.KERNEL_BLOCK_SIZES_BY_LAYER)
    head_size = query.head_size if of_layer or query.model_head_size is None else query.model_head_size
    head_size_v = query.head_size_v if of_layer else None
    dtype = query.kv_cache_dtype if of_layer else query.run_dtype
    fp8_on_sm90 = release.has(history.FLASH_ATTN_FP8_FA4_ON_SM90) and query.major == 9 and head_size == 512
    if fp8_on_sm90 and dtype in ("fp8", "fp8_e4m3") and fa_version(query, release, head_size=head_size) == 4:
        return 64
    if not release.has(history.FA4_HEAD_256_KERNEL) or not uses_head_256_kernel(query, head_size, head_size_v):
        return None
    version = fa_version(query, release, head_size=head_size, head_size_v=head_size_v, head_256_kernel=True)
    return FA4_HEAD_256_PAGE if version == 4 else None


def _flashinfer_cache_dtype(query: BackendQuery, release: Release) -> bool:
    dtype = query.kv_cache_dtype
    if dtype.startswith("nvfp4") and release.has(history.FLASHINFER_CHECKS_NVFP4):
        if dtype not in _FLASHINFER_DTYPES.at(release) and not release.has(history.FLASHINFER_CLAIMS_ANY_NVFP4):
            return False
        if release.has(history.FLASHINFER_NVFP4_ON_FA2) and query.major in (8, 9, 12):
            return dtype == "nvfp4"
        both = trtllm_supported(query, release, prefill=True) and trtllm_supported(query, release)
        return query.major == 10 and both
    return dtype in _FLASHINFER_DTYPES.at(release)


def _flashinfer_sink(query: BackendQuery, release: Release) -> bool:
    if query.use_trtllm_attention is False:
        return False
    on_hopper = query.capability == (9, 0) and release.has(history.FLASHINFER_SINKS_ON_SM90)
    on_desk = query.major == 12 and release.has(history.TRTLLM_DECODE_ON_SM12X)
    if on_hopper or on_desk:
        return trtllm_supported(query, release)
    return query.major == 10 and trtllm_supported(query, release)


def _flashinfer_block_sizes(query: BackendQuery, release: Release, _of_layer: bool) -> tuple[KernelBlockSize, ...]:
    heads, kv_heads = query.heads_of_model
    large = (
        release.has(history.FLASHINFER_LARGE_PAGES)
        and query.major == 10
        and kv_heads > 0
        and heads // kv_heads > 1
        and trtllm_usable(query, release)
    )
    return (16, 32, 64, 128, 256, 512, 1024) if large else (16, 32, 64)


def _flashinfer_query_lens(query: BackendQuery, release: Release) -> bool:
    if not release.has(history.FLASHINFER_NEEDS_TRTLLM_FOR_ADAPTIVE) or query.major != 10:
        return False
    return query.dcp_size == 1 and trtllm_usable(query, release)


def _flashinfer_combination(query: BackendQuery, release: Release) -> str | None:
    on_fa2 = release.has(history.FLASHINFER_NVFP4_ON_FA2) and query.major in (8, 9, 12)
    if on_fa2 and query.kv_cache_dtype.startswith("nvfp4"):
        if query.head_size == 64:
            return "fa2 prefill misreads an NVFP4 KV cache at head_size 64"
        if query.has_sink:
            return "the sink prefill wrapper cannot read an NVFP4 KV cache"
    return None


def _flashinfer_layouts(query: BackendQuery, _release: Release) -> tuple[str, ...] | None:
    return _BLACKWELL_LAYOUTS if query.major == 10 else None


_FLASHINFER_DTYPES = always(
    ("auto", "bfloat16", "fp8", "fp8_e4m3", "fp8_e5m2"),
    ("0.18.1", ("auto", "float16", "bfloat16", "fp8", "fp8_e4m3", "fp8_e5m2")),
    ("0.21.0", ("auto", "float16", "bfloat16", "fp8", "fp8_e4m3", "fp8_e5m2", "nvfp4")),
    ("0.28.0", ("auto", "float16", "bfloat16", "fp8", "fp8_e4m3", "fp8_e5m2", "nvfp4", "nvfp4_4over6")),
)

_FLASH_ATTN = Backend(
    name="FLASH_ATTN",
    min_capability=always((8, 0)),
    accepts_head_size=_flash_attn_head_size,
    accepts_cache_dtype=_flash_attn_cache_dtype,
    attn_types=ALL_TYPES,
    kernel_block_sizes=_flash_attn_block_sizes,
    features={
        Feature.SLIDING_WINDOW: ALWAYS,
        Feature.RSWA: ALWAYS,
        Feature.NON_CAUSAL: ALWAYS,
        Feature.BATCH_INVARIANT: ALWAYS,
        Feature.DCP: ALWAYS,
        Feature.QUERY_LENS_MISMATCH: ALWAYS,
    },
    feature_checks={
        Feature.SINK: _flash_attn_sink,
        Feature.PER_HEAD_SCALES: _flash_attn_per_head,
        Feature.MM_PREFIX: _flash_attn_mm_prefix,
    },
    combination=_flash_attn_combination,
    block_stride=always(True),
)

_TRITON_FEATURES = {
    Feature.SINK: ALWAYS,
    Feature.MM_PREFIX: ALWAYS,
    Feature.SLIDING_WINDOW: ALWAYS,
    Feature.RSWA: ALWAYS,
    Feature.NON_CAUSAL: Span(since="0.24.0"),
    Feature.BATCH_INVARIANT: ALWAYS,
    Feature.QUERY_LENS_MISMATCH: ALWAYS,
}


def _at_least_32(query: BackendQuery, _release: Release) -> bool:
    return query.head_size >= 32


_TRITON_16_BIT_AND_FP8 = ("auto", "float16", "bfloat16", "fp8", "fp8_e4m3", "fp8_e5m2")
_PER_TOKEN_HEAD = ("int8_per_token_head", "fp8_per_token_head")

_TRITON_ATTN = Backend(
    name="TRITON_ATTN",
    dtypes=ALL_FLOATS,
    accepts_head_size=_at_least_32,
    cache_dtypes=always(
        ("auto", "bfloat16", "fp8", "fp8_e4m3", "fp8_e5m2"),
        ("0.18.1", _TRITON_16_BIT_AND_FP8),
        ("0.20.2", (*_TRITON_16_BIT_AND_FP8, *_PER_TOKEN_HEAD)),
        ("0.25.1", (*_TRITON_16_BIT_AND_FP8, *_PER_TOKEN_HEAD, "int4_per_token_head")),
    ),
    attn_types=ALL_TYPES,
    features=_TRITON_FEATURES,
    block_stride=always(True),
)

_FLASHINFER = Backend(
    name="FLASHINFER",
    min_capability=always((7, 5), ("0.24.0", (8, 0))),
    max_capability=always((12, 1)),
    head_sizes=always((64, 128, 256), ("0.22.1", (64, 128, 256, 512))),
    accepts_cache_dtype=_flashinfer_cache_dtype,
    kernel_block_sizes=_flashinfer_block_sizes,
    features={Feature.SLIDING_WINDOW: ALWAYS, Feature.NON_CAUSAL: Span(since="0.24.0"), Feature.DCP: ALWAYS},
    feature_checks={Feature.SINK: _flashinfer_sink, Feature.QUERY_LENS_MISMATCH: _flashinfer_query_lens},
    combination=_flashinfer_combination,
    block_stride=always(True),
    layout_check=_flashinfer_layouts,
)

_FLEX_ATTENTION = Backend(
    name="FLEX_ATTENTION",
    dtypes=ALL_FLOATS,
    attn_types=("decoder", "encoder_only"),
    block_sizes=always((MultipleOf(1),), ("0.21.0", (MultipleOf(16),))),
    features={
        Feature.MM_PREFIX: ALWAYS,
        Feature.SLIDING_WINDOW: ALWAYS,
        Feature.RSWA: ALWAYS,
        Feature.NON_CAUSAL: ALWAYS,
        Feature.BATCH_INVARIANT: Span(since="0.21.0"),
        Feature.QUERY_LENS_MISMATCH: ALWAYS,
    },
    block_stride=always(True),
    layouts=always(("LBNHC",)),
)


def _turboquant_cache_dtype(query: BackendQuery, _release: Release) -> bool:
    return query.kv_cache_dtype.startswith("turboquant_")


_TURBOQUANT = Backend(
    name="TURBOQUANT",
    since="0.20.2",
    cache_dtypes=always(tuple(TURBOQUANT_BITS)),
    accepts_cache_dtype=_turboquant_cache_dtype,
    block_sizes=always((16, 32, 64, 128)),
    features={Feature.QUERY_LENS_MISMATCH: ALWAYS},
    layouts=always(("LBNHC",)),
)

_TREE_ATTN = Backend(
    name="TREE_ATTN",
    until="0.20.2",
    head_sizes=always((32, 64, 96, 128, 160, 192, 224, 256)),
)

_HPC_ATTN = Backend(
    name="HPC_ATTN",
    since="0.25.1",
    min_capability=always((9, 0)),
    max_capability=always((99, 9), ("0.28.0", (9, 0))),
    head_sizes=always((128,)),
    cache_dtypes=always(("auto", "bfloat16", "fp8_e4m3")),
    block_sizes=always((64,)),
    features={Feature.QUERY_LENS_MISMATCH: ALWAYS},
    block_stride=always(True),
    layouts=always(("LBNHC",)),
)

_B12X_PAGES = (64, 128)


def _b12x_block_size(query: BackendQuery, _release: Release) -> bool:
    return query.block_size is None or query.block_size in _B12X_PAGES


def _b12x_combination(query: BackendQuery, release: Release) -> str | None:
    if query.dtype != "bfloat16":
        return "b12x currently requires bfloat16 queries"
    if query.kv_cache_dtype == "float16":
        return "b12x does not support float16 KV cache"
    if passes_for_quantised(query.kv_cache_dtype, release) and query.kv_cache_dtype not in ("fp8", "fp8_e4m3"):
        return "b12x currently supports only fp8/fp8_e4m3 quantized KV cache dtypes"
    return "Install the b12x backend with `pip install vllm[b12x]`"


_B12X = Backend(
    name="B12X",
    since="0.30.0",
    min_capability=always((12, 0)),
    max_capability=always((12, 1)),
    head_sizes=always((64, 128, 192, 256)),
    dtypes=("bfloat16",),
    cache_dtypes=always(("auto", "bfloat16", "fp8", "fp8_e4m3")),
    block_sizes=always(_B12X_PAGES),
    accepts_block_size=_b12x_block_size,
    features={Feature.SINK: ALWAYS, Feature.SLIDING_WINDOW: ALWAYS, Feature.QUERY_LENS_MISMATCH: ALWAYS},
    combination=_b12x_combination,
    layouts=always(_BLACKWELL_LAYOUTS),
    preferred_block_size=128,
)

_FLASH_ATTN_DIFFKV = replace(_FLASH_ATTN, name="FLASH_ATTN_DIFFKV")

_TRITON_ATTN_DIFFKV = replace(
    _TRITON_ATTN,
    name="TRITON_ATTN_DIFFKV",
    since="0.24.0",
    cache_dtypes=always(("auto", "bfloat16"), ("0.32.0", ("auto", "bfloat16", "fp8", "fp8_e4m3"))),
    attn_types=("decoder",),
)


# Composites route image masks to Triton and causal batches to the second child; both must accept everything.


def _both(query: BackendQuery, release: Release, causal: Backend) -> bool:
    return all(child.takes_cache_dtype(query, release) for child in (_TRITON_ATTN, causal))


def _triton_flash_cache_dtype(query: BackendQuery, release: Release) -> bool:
    return _both(query, release, _FLASH_ATTN)


def _triton_flashinfer_cache_dtype(query: BackendQuery, release: Release) -> bool:
    return _both(query, release, _FLASHINFER)


def _triton_flash_combination(query: BackendQuery, release: Release) -> str | None:
    causal = replace(query, use_mm_prefix=False)
    reason = _flash_attn_combination(causal, release)
    if reason is None:
        versions = (3, 4) if release.has(history.COMPOSITE_TAKES_FA3) else (4,)
        if flash_attn_version_of_layer(query, release) not in versions:
            wanted = "v3 or v4" if release.has(history.COMPOSITE_TAKES_FA3) else "v4"
            reason = f"causal route requires FlashAttention {wanted}"
    return None if reason is None else f"FLASH_ATTN: {reason}"


def _triton_flashinfer_combination(query: BackendQuery, release: Release) -> str | None:
    reason = _flashinfer_combination(query, release)
    return None if reason is None else f"FLASHINFER: {reason}"


def _triton_flash_head_size(query: BackendQuery, release: Release) -> bool:
    return query.head_size in (256, 512) and _flash_attn_head_size(query, release)


_COMPOSITE_FEATURES = {Feature.MM_PREFIX: ALWAYS, Feature.SLIDING_WINDOW: ALWAYS}

_TRITON_FLASH_ATTN = Backend(
    name="TRITON_FLASH_ATTN",
    since="0.30.0",
    majors=(9,),
    accepts_head_size=_triton_flash_head_size,
    accepts_cache_dtype=_triton_flash_cache_dtype,
    kernel_block_sizes=_flash_attn_block_sizes,
    features={**_COMPOSITE_FEATURES, Feature.RSWA: ALWAYS},
    combination=_triton_flash_combination,
)

_TRITON_FLASHINFER = Backend(
    name="TRITON_FLASHINFER",
    since="0.30.0",
    majors=(10,),
    head_sizes=always((256, 512)),
    accepts_cache_dtype=_triton_flashinfer_cache_dtype,
    block_sizes=always((64,)),
    features=_COMPOSITE_FEATURES,
    combination=_triton_flashinfer_combination,
    layouts=always(_BLACKWELL_LAYOUTS),
)

# Written for AMD, but its class takes any GPU that asks for it by name.

_ROCM_HEAD_SIZES = (32, 64, 96, 128, 160, 192, 224, 256)


_ROCM_ATTN = Backend(
    name="ROCM_ATTN",
    head_sizes=always(_ROCM_HEAD_SIZES, ("0.17.1", tuple(sorted((80, *_ROCM_HEAD_SIZES))))),
    dtypes=ALL_FLOATS,
    cache_dtypes=always(
        ("auto", "bfloat16"), ("0.18.1", ("auto", "float16", "bfloat16", "fp8", "fp8_e4m3", "fp8_e5m2"))
    ),
    attn_types=("decoder", "encoder", "encoder_only"),
    block_sizes=always((16, 32, 544), ("0.18.1", (MultipleOf(16),))),
    features={
        Feature.NON_CAUSAL: Span(since="0.20.2"),
        Feature.SLIDING_WINDOW: Span(since="0.26.0"),
        Feature.MM_PREFIX: Span(since="0.18.1", until="0.31.0"),
        Feature.SINK: Span(since="0.18.1", until="0.18.1"),
    },
    layouts=always(("LHBNC", "LBHNC")),
)

STANDARD: tuple[Backend, ...] = (
    _FLASH_ATTN,
    _FLASHINFER,
    _TRITON_ATTN,
    _FLEX_ATTENTION,
    _TURBOQUANT,
    _TREE_ATTN,
    _HPC_ATTN,
    _B12X,
    _FLASH_ATTN_DIFFKV,
    _TRITON_ATTN_DIFFKV,
    _TRITON_FLASH_ATTN,
    _TRITON_FLASHINFER,
    _ROCM_ATTN,
)
"""Backends that an ordinary attention layer may run on."""
