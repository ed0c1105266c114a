"""The backends of multi-head latent attention (MLA), dense and sparse: one row each.

Facts from vllm/v1/attention/backends/mla/*.py of each release.
"""

from __future__ import annotations

from kvplan.engine.backends.facts import PLAIN, Backend, Feature, always
from kvplan.engine.backends.software import fa_supported, passes_for_quantised
from kvplan.engine.backends.values import BackendQuery, KernelBlockSize, MultipleOf
from kvplan.history import backends as history
from kvplan.releases import ALWAYS, Release, Span

_LATENT_ROWS = always((576,), ("0.18.1", (320, 576)), ("0.30.0", (320, 512, 576)))
_ANY_ROWS = always((576,), ("0.18.1", ()))
_PLAIN_AND_E4M3 = always(
    ("auto", "bfloat16", "fp8", "fp8_e4m3"),
    ("0.18.1", ("auto", "float16", "bfloat16", "fp8", "fp8_e4m3")),
)
_COMMON = {Feature.PCP: ALWAYS, Feature.QUERY_LENS_MISMATCH: ALWAYS}
_WITH_DCP = {**_COMMON, Feature.DCP: ALWAYS}


def _nope(query: BackendQuery) -> int:
    """The config's qk_nope_head_dim, with vLLM's stand-in where there is none."""
    return 1 if query.latent is None else query.latent.qk_nope_head_dim


def _rope(query: BackendQuery) -> int | None:
    return None if query.latent is None else query.latent.qk_rope_head_dim


def _topk(query: BackendQuery) -> int | None:
    return None if query.latent is None else query.latent.index_topk


def _flash_attn_mla(query: BackendQuery, _release: Release) -> str | None:
    return None if fa_supported(3, query) else "FlashAttention MLA not supported on this device"


def _flashmla(query: BackendQuery, release: Release) -> str | None:
    if query.use_sparse:
        blackwell = "Blackwell DC" if release.has(history.FLASHMLA_NAMES_BLACKWELL_DC) else "Blackwell"
        supported = query.major in (9, 10)
        return None if supported else f"FlashMLA Sparse is only supported on Hopper and {blackwell} devices."
    return None if query.major == 9 else "FlashMLA Dense is only supported on Hopper devices."


_FLASHINFER_MLA_NOPE = always((128,), ("0.18.1", (64, 128)), ("0.19.1", (64, 128, 192)))


def _flashinfer_mla(query: BackendQuery, release: Release) -> str | None:
    allowed = _FLASHINFER_MLA_NOPE.at(release)
    if _nope(query) in allowed:
        return None
    wanted = f"== {allowed[0]}" if len(allowed) == 1 else f"in {list(allowed)}"
    return f"FlashInfer MLA kernel requires qk_nope_head_dim {wanted}, but got {_nope(query)}"


def _tokenspeed_mla(query: BackendQuery, _release: Release) -> str | None:
    latent = query.latent
    dims = (0, 0, 0) if latent is None else (latent.qk_nope_head_dim, latent.qk_rope_head_dim, latent.v_head_dim)
    if dims == (128, 64, 128):
        return None
    return (
        "tokenspeed_mla requires DeepSeek R1 MLA dimensions "
        f"(qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128), got {dims}"
    )


def _flashmla_sparse(query: BackendQuery, release: Release) -> str | None:
    dtype = query.kv_cache_dtype
    if query.head_size == 512 and release.has(history.FLASHMLA_SPARSE_NOPE_ROWS):
        with_fp8 = release.has(history.FLASHMLA_SPARSE_NOPE_FP8)
        allowed = ("auto", "bfloat16", "float16") + (("fp8_ds_mla",) if with_fp8 else ())
        if dtype not in allowed or query.major != 9:
            kinds = "bf16 or fp8_ds_mla" if with_fp8 else "bf16"
            major, minor = query.capability
            return (
                f"FLASHMLA_SPARSE supports head_size 512 only with {kinds} kv-cache on SM90 (NoPE), "
                f"got kv_cache_dtype={dtype}, capability={major}.{minor}"
            )
        if _rope(query) != 0:
            return "FLASHMLA_SPARSE supports head_size 512 only for rope-free (NoPE) models"
    if dtype == "nvfp4_ds_mla" and query.major != 10:
        return f"FLASHMLA_SPARSE only supports the {dtype} kv-cache dtype on SM100 (Blackwell)"
    return None


def _flashmla_sparse_block_sizes(query: BackendQuery, release: Release, of_layer: bool) -> tuple[KernelBlockSize, ...]:
    if not release.has(history.SPARSE_MLA_ANY_ROWS_OF_64):
        return (64,)
    quantised = of_layer and passes_for_quantised(query.kv_cache_dtype, release)
    return (64,) if quantised and query.major == 10 else (MultipleOf(64),)


def _flash_attn_mla_sparse(query: BackendQuery, _release: Release) -> str | None:
    if query.kv_cache_dtype not in ("auto", "float16", "bfloat16"):
        return "FlashAttention MLA Sparse currently supports only FP16/BF16 KV cache"
    if not fa_supported(3, query):
        return "FlashAttention MLA not supported on this device"
    if query.dcp_size > 1:
        return "FlashAttention MLA Sparse does not support DCP for now"
    if _topk(query) is None:
        return "FlashAttention MLA Sparse requires model with index_topk"
    return None


_FLASHINFER_SPARSE_NOPE = always((128,), ("0.19.1", (128, 192)))


def _flashinfer_mla_sparse(query: BackendQuery, release: Release, name: str) -> str | None:
    without_rope = release.has(history.FLASHINFER_SPARSE_WITHOUT_ROPE)
    if without_rope and query.use_pcp and query.dcp_size > 1:
        return (
            f"{name} does not support combined PCP+DCP; use FLASHMLA_SPARSE, which gathers each DCP KV shard "
            "before running the rank-local PCP prefill queries"
        )
    if query.kv_cache_dtype == "fp8_ds_mla" and release.has(history.FLASHINFER_SPARSE_REFUSES_DS_MLA):
        return f"{name} SM10 does not support fp8_ds_mla kv-cache dtype"
    nope = _nope(query)
    rank = None if query.latent is None else query.latent.kv_lora_rank
    allowed = _FLASHINFER_SPARSE_NOPE.at(release)
    if without_rope and _rope(query) == 0:
        if (nope, rank) != (256, 512):
            return (
                "FlashInfer native no-rope MLA requires qk_nope_head_dim=256 and kv_lora_rank=512, "
                f"but got qk_nope_head_dim={nope}, kv_lora_rank={rank}"
            )
    elif nope not in allowed:
        wanted = f"== {allowed[0]}" if len(allowed) == 1 else f"in {list(allowed)}"
        return f"FlashInfer MLA Sparse kernel requires qk_nope_head_dim {wanted}, but got {nope}"
    return "FlashInfer MLA Sparse requires model with index_topk config" if _topk(query) is None else None


def _flashinfer_mla_sparse_sm10x(query: BackendQuery, release: Release) -> str | None:
    return _flashinfer_mla_sparse(query, release, "FLASHINFER_MLA_SPARSE")


def _fa4_sparse(query: BackendQuery, release: Release) -> str | None:
    if not fa_supported(4, query):
        return "FA4 unavailable: FA4 is only supported on devices with compute capability 9.x, 10.x, or 11.x"
    topk = _topk(query)
    if topk is None or topk % 128 != 0:
        return f"FA4 sparse MLA requires index_topk % 128 == 0, got {topk}"
    dims = (None, None) if query.latent is None else (query.latent.kv_lora_rank, query.latent.qk_rope_head_dim)
    if dims != (512, 64):
        return f"FA4 sparse MLA requires (kv_lora_rank, qk_rope_head_dim) == (512, 64), got {dims}"
    counts = (8, 16, 32, 64) if query.dcp_size > 1 else (8, 16, 32, 64, 128)
    heads = query.heads_of_model[0]
    if heads * query.dcp_size not in counts:
        return (
            f"FA4 sparse MLA requires {counts} gathered query heads, got num_heads={heads} * dcp_size={query.dcp_size}"
        )
    return _flashinfer_mla_sparse(query, release, "FLASH_ATTN_MLA_SPARSE_FA4")


def _flashinfer_mla_sparse_sm120(query: BackendQuery, _release: Release) -> str | None:
    if query.dtype != "bfloat16":
        return "dtype not supported"
    if query.kv_cache_dtype not in ("auto", "fp8", "fp8_e4m3", "fp8_ds_mla"):
        return "kv_cache_dtype not supported"
    topk = _topk(query)
    if topk is None:
        return "FLASHINFER_MLA_SPARSE_SM120 requires a model with index_topk config"
    if topk != 2048:
        return f"FLASHINFER_MLA_SPARSE_SM120 requires index_topk=2048; got {topk}"
    return None


def _flashinfer_mla_sparse_sm90(query: BackendQuery, release: Release) -> str | None:
    if not release.has(history.FLASHINFER_HAS_SM90_MLA):
        return (
            "FLASHINFER_MLA_SPARSE_SM90 requires FlashInfer with SM90 MLA support "
            "(ckv_scale_arr in BatchMLAPagedAttentionWrapper.run, FlashInfer >= 0.6.18)"
        )
    if not query.use_sparse:
        return "FLASHINFER_MLA_SPARSE_SM90 requires sparse MLA"
    if query.latent is not None and query.latent.kv_lora_rank != 512:
        return "FLASHINFER_MLA_SPARSE_SM90 requires kv_lora_rank=512"
    if query.latent is not None and query.latent.qk_rope_head_dim not in (0, 64):
        return "FLASHINFER_MLA_SPARSE_SM90 requires qk_rope_head_dim in (0, 64)"
    return None


_PADDABLE = always(True)

LATENT: tuple[Backend, ...] = (
    Backend(
        name="FLASHINFER_MLA",
        mla=True,
        majors=(10,),
        head_sizes=_LATENT_ROWS,
        cache_dtypes=_PLAIN_AND_E4M3,
        block_sizes=always((32, 64)),
        features={**_WITH_DCP, Feature.NON_CAUSAL: Span(since="0.27.1"), Feature.NON_CAUSAL_DCP: Span(since="0.29.0")},
        combination=_flashinfer_mla,
        block_stride=_PADDABLE,
    ),
    Backend(
        name="TOKENSPEED_MLA",
        since="0.21.0",
        mla=True,
        majors=(10,),
        head_sizes=_LATENT_ROWS,
        cache_dtypes=always(("fp8", "fp8_e4m3")),
        block_sizes=always((32, 64)),
        features={**_WITH_DCP, Feature.NON_CAUSAL: Span(since="0.28.0"), Feature.NON_CAUSAL_DCP: Span(since="0.29.0")},
        combination=_tokenspeed_mla,
    ),
    Backend(
        name="CUTLASS_MLA",
        mla=True,
        majors=(10,),
        head_sizes=_LATENT_ROWS,
        cache_dtypes=_PLAIN_AND_E4M3,
        block_sizes=always((128,)),
        features=_WITH_DCP,
        block_stride=_PADDABLE,
    ),
    Backend(
        name="FLASH_ATTN_MLA",
        mla=True,
        majors=(9,),
        head_sizes=_LATENT_ROWS,
        features={**_WITH_DCP, Feature.BATCH_INVARIANT: ALWAYS},
        combination=_flash_attn_mla,
        block_stride=_PADDABLE,
    ),
    Backend(
        name="FLASHMLA",
        mla=True,
        majors=(9, 10),
        head_sizes=_LATENT_ROWS,
        cache_dtypes=_PLAIN_AND_E4M3,
        block_sizes=always((64,)),
        features=_WITH_DCP,
        combination=_flashmla,
        block_stride=_PADDABLE,
    ),
    Backend(
        name="TRITON_MLA",
        mla=True,
        head_sizes=_ANY_ROWS,
        cache_dtypes=always(("auto", "bfloat16"), ("0.18.1", ("auto", "float16", "bfloat16", "fp8", "fp8_e4m3"))),
        block_sizes=always((MultipleOf(1),), ("0.18.1", (MultipleOf(16),))),
        features={**_WITH_DCP, Feature.BATCH_INVARIANT: ALWAYS, Feature.NON_CAUSAL: Span(since="0.27.1")},
        block_stride=_PADDABLE,
    ),
    Backend(
        name="FLASHMLA_SPARSE",
        mla=True,
        sparse=True,
        majors=(9, 10),
        head_sizes=always((576,), ("0.20.2", (512, 576)), ("0.22.1", (576,)), ("0.31.0", (576, 512))),
        dtypes=("bfloat16",),
        cache_dtypes=always(
            ("auto", "bfloat16", "fp8_ds_mla"),
            ("0.18.1", ("auto", "bfloat16", "fp8_ds_mla", "fp8")),
            ("0.30.0", ("auto", "bfloat16", "fp8_ds_mla", "fp8", "nvfp4_ds_mla")),
        ),
        kernel_block_sizes=_flashmla_sparse_block_sizes,
        features=_WITH_DCP,
        combination=_flashmla_sparse,
    ),
    Backend(
        name="FLASH_ATTN_MLA_SPARSE",
        since="0.25.1",
        mla=True,
        sparse=True,
        majors=(9,),
        cache_dtypes=PLAIN,
        block_sizes=always((64,), ("0.32.0", (MultipleOf(64),))),
        features=_COMMON,
        combination=_flash_attn_mla_sparse,
    ),
    Backend(
        name="FLASH_ATTN_MLA_SPARSE_FA4",
        since="0.33.0",
        mla=True,
        sparse=True,
        majors=(10,),
        head_sizes=always((576,)),
        dtypes=("bfloat16",),
        cache_dtypes=always(("auto", "bfloat16")),
        block_sizes=always((MultipleOf(64),)),
        features=_WITH_DCP,
        combination=_fa4_sparse,
    ),
    Backend(
        name="FLASHINFER_MLA_SPARSE",
        since="0.17.1",
        mla=True,
        sparse=True,
        majors=(10,),
        head_sizes=always((576,), ("0.30.0", (512, 576))),
        cache_dtypes=always(("auto", "bfloat16"), ("0.18.1", ("auto", "float16", "bfloat16", "fp8", "fp8_e4m3"))),
        block_sizes=always((32, 64), ("0.32.0", (MultipleOf(32),))),
        features=_WITH_DCP,
        combination=_flashinfer_mla_sparse_sm10x,
    ),
    Backend(
        name="FLASHINFER_MLA_SPARSE_SM120",
        since="0.24.0",
        mla=True,
        sparse=True,
        majors=(12,),
        head_sizes=always((576,), ("0.30.0", (512, 576))),
        dtypes=("bfloat16",),
        cache_dtypes=always(("auto", "fp8", "fp8_e4m3", "fp8_ds_mla")),
        block_sizes=always((64, 256), ("0.32.0", (MultipleOf(64),))),
        features=_COMMON,
        combination=_flashinfer_mla_sparse_sm120,
    ),
    Backend(
        name="FLASHINFER_MLA_SPARSE_SM90",
        since="0.30.0",
        mla=True,
        sparse=True,
        majors=(9,),
        head_sizes=always((512, 576)),
        dtypes=("bfloat16",),
        cache_dtypes=always(("auto", "bfloat16", "fp8", "fp8_e4m3")),
        block_sizes=always((MultipleOf(64),)),
        features=_COMMON,
        combination=_flashinfer_mla_sparse_sm90,
        layouts=always(("LBHNC",), ("0.32.0", None)),
    ),
)
"""Backends that an MLA layer may run on."""
