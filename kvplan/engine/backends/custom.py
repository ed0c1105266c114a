"""Backends that a model's own layers bring along: never chosen, but block sizes and views need their facts."""

from __future__ import annotations

from kvplan.engine.backends.facts import Backend, Dated, always
from kvplan.engine.backends.values import BackendQuery, KernelBlockSize, MultipleOf
from kvplan.history import compressed
from kvplan.releases import Release


def _v41_pages(query: BackendQuery, _release: Release, _of_layer: bool) -> tuple[KernelBlockSize, ...]:
    return (64 if query.major == 9 else 128,)


def _pooled_pages(query: BackendQuery, release: Release, _of_layer: bool) -> tuple[KernelBlockSize, ...]:
    """Pages of 64 keys; where a key stands for a pool of tokens, pages of 32 or 64 keys, in tokens."""
    pool = query.tokens_per_state
    if pool == 1 or not release.has(compressed.KPOOL_BACKEND_COUNTS_TOKENS):
        return (64,)
    return (64 * pool,) if query.major == _DESKTOP_BLACKWELL else (32 * pool, 64 * pool)


_DESKTOP_BLACKWELL = 12
_BLOCK_OUTERMOST = ("BLHNC", "BLNHC")
_TOKEN_BY_TOKEN: Dated[tuple[KernelBlockSize, ...]] = always((MultipleOf(1),))

OWNED: tuple[Backend, ...] = (
    Backend(
        name="DEEPSEEK_V32_INDEXER",
        head_sizes=always((32, 64, 128)),
        kernel_block_sizes=_pooled_pages,
    ),
    Backend(
        name="KPOOL_TAIL",
        since="0.30.0",
        block_sizes=_TOKEN_BY_TOKEN,
        layouts=always(("LBHNC",), ("0.32.0", ("BLHNC",))),
    ),
    Backend(name="QWEN4_EXP_QSA_TRITON", since="0.29.0", sparse=True),
    Backend(
        name="QWEN4_EXP_EXP_QSA_STATE",
        since="0.29.0",
        block_sizes=_TOKEN_BY_TOKEN,
        layouts=always(("BLNHC", "BLHNC")),
    ),
    Backend(
        name="DEEPSEEK_V4_INDEXER",
        since="0.20.2",
        head_sizes=always((32, 64, 128)),
        block_sizes=always((256,)),
        layouts=always(_BLOCK_OUTERMOST),
    ),
    Backend(
        name="DEEPSEEK_V41_INDEXER",
        since="0.30.0",
        kernel_block_sizes=_v41_pages,
        layouts=always(_BLOCK_OUTERMOST),
    ),
    Backend(
        name="DEEPSEEK_SPARSE_SWA",
        since="0.20.2",
        head_sizes=always((512,)),
        block_sizes=always((MultipleOf(64),), ("0.30.0", (MultipleOf(32),))),
        preferred_block_size=256,
    ),
    Backend(
        name="V4_FLASHMLA_SPARSE",
        since="0.20.2",
        until="0.22.1",
        mla=True,
        sparse=True,
        block_sizes=always((256,)),
    ),
    Backend(name="FLASHMLA_SPARSE_DSV4", since="0.23.0", mla=True, sparse=True, block_sizes=always((256,))),
    Backend(name="FLASHINFER_MLA_SPARSE_DSV4", since="0.23.0", mla=True, sparse=True, block_sizes=always((256,))),
    *(
        Backend(name=name, since=since, mla=True, sparse=True, kernel_block_sizes=_v41_pages)
        for name, since in (
            ("FLASHMLA_SPARSE_DSV41", "0.30.0"),
            ("FLASHMLA_MEGA_ATTN_DSV41", "0.31.0"),
            ("FLASHINFER_MLA_SPARSE_DSV41", "0.30.0"),
        )
    ),
    Backend(name="CompressorBackend", since="0.20.2", block_sizes=_TOKEN_BY_TOKEN),
    Backend(
        name="DOTS3_NOTE_PADDED_MLA_SPARSE",
        since="0.28.0",
        mla=True,
        sparse=True,
        block_sizes=always((64,), ("0.32.0", (MultipleOf(64),))),
        layouts=always(("BLHNC",)),
    ),
    Backend(name="STEP5_DSA", since="0.33.0", sparse=True, layouts=always(("BLNHC",))),
    Backend(name="STEP5_CSA_SUMMARY", since="0.33.0", block_sizes=_TOKEN_BY_TOKEN),
    Backend(name="STEP5_CSA_TAIL_RING", since="0.33.0", block_sizes=_TOKEN_BY_TOKEN),
    Backend(name="CACHE_ONLY_ATTN", since="0.17.1", block_sizes=_TOKEN_BY_TOKEN),
    Backend(name="INKLING_SCONV_SWA", since="0.26.0", block_sizes=_TOKEN_BY_TOKEN),
    Backend(name="MINIMAX_M3_SPARSE", since="0.24.0", sparse=True, block_sizes=always((128,))),
    Backend(name="MINIMAX_M3_SPARSE_INDEXER", since="0.24.0", sparse=True, block_sizes=always((128,))),
    *(
        Backend(name=name, ssm=True, block_sizes=_TOKEN_BY_TOKEN)
        for name in (
            "MAMBA1_ATTN",
            "MAMBA2_ATTN",
            "GDN_ATTN",
            "LINEAR_ATTN",
            "BAILING_LINEAR_ATTN",
            "SHORT_CONV_ATTN",
            "PLE_SHORT_CONV_ATTN",
            "KIMI_K3_KDA",
        )
    ),
)
"""Caches of indexers, compressors and states, and model-owned attention."""
