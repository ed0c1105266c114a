"""Which backend a layer gets, and why not another: worked decisions per release and GPU."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvplan.engine.backends import priority
from kvplan.engine.backends.selection import BY_NAME, dtypes_with_backend, reasons, select
from kvplan.engine.backends.values import BackendQuery
from kvplan.engine.cache_dtypes.dtypes import CACHE_DTYPES
from kvplan.engine.models.shapes import Latent
from kvplan.releases import KNOWN, resolve

HOPPER, BLACKWELL, AMPERE, ADA, DESK, TURING = (9, 0), (10, 0), (8, 0), (8, 9), (12, 0), (7, 5)
DEEPSEEK = Latent(512, 64, 128, 128)
DEEPSEEK_SPARSE = Latent(512, 64, 128, 128, sparse=True, index_topk=2048)


def query(capability: tuple[int, int], cache: str = "auto", **facts: object) -> BackendQuery:
    """A grouped-query layer of 128 elements a head; keywords replace what differs."""
    base = BackendQuery(
        capability=capability,
        head_size=128,
        dtype="bfloat16",
        kv_cache_dtype=cache,
        num_heads=32,
        num_kv_heads=8,
    )
    return replace(base, **facts)  # type: ignore[arg-type]


def mla(capability: tuple[int, int], cache: str = "auto", **facts: object) -> BackendQuery:
    """A dense DeepSeek layer of 16 heads a rank."""
    return query(
        capability,
        cache,
        **{"head_size": 576, "use_mla": True, "latent": DEEPSEEK, "num_heads": 16, "num_kv_heads": 1, **facts},
    )


def sparse(capability: tuple[int, int], cache: str = "auto", **facts: object) -> BackendQuery:
    """A sparse DeepSeek-V3.2 layer of 16 heads a rank."""
    return mla(capability, cache, **{"use_sparse": True, "latent": DEEPSEEK_SPARSE, **facts})


STANDARD_CASES = [
    ("0.33.0", query(HOPPER), "FLASH_ATTN"),
    ("0.33.0", query(BLACKWELL), "FLASHINFER"),
    ("0.33.0", query(AMPERE, "fp8"), "FLASHINFER"),
    ("0.33.0", query(ADA, "fp8_e5m2"), "FLASHINFER"),
    ("0.33.0", query(DESK), "FLASH_ATTN"),
    ("0.33.0", query(TURING, dtype="float16"), "TRITON_ATTN"),
    ("0.23.0", query(TURING, dtype="float16"), "FLASHINFER"),
    ("0.33.0", query(HOPPER, "fp8"), "FLASH_ATTN"),
    ("0.21.0", query(HOPPER, "fp8_e5m2"), "FLASH_ATTN"),
    ("0.22.1", query(HOPPER, "fp8_e5m2"), "FLASHINFER"),
    ("0.20.2", query(HOPPER, "int8_per_token_head"), "FLASH_ATTN"),
    ("0.22.1", query(HOPPER, "int8_per_token_head"), "TRITON_ATTN"),
    ("0.24.0", query(ADA, "nvfp4"), "FLASHINFER"),
    ("0.25.1", query(ADA, "nvfp4"), None),
    ("0.32.0", query(ADA, "nvfp4"), "FLASHINFER"),
    ("0.33.0", query(BLACKWELL, "nvfp4_4over6"), "FLASHINFER"),
    ("0.33.0", query(HOPPER, "nvfp4_4over6"), None),
    ("0.20.2", query(HOPPER, "turboquant_k8v4"), "TURBOQUANT"),
    ("0.33.0", query(HOPPER, "turboquant_k8v4", has_sliding_window=True), None),
    ("0.24.0", query(HOPPER, "turboquant_k8v4", has_sliding_window=True), "TURBOQUANT"),
    ("0.33.0", query(HOPPER, has_sink=True, head_size=64), "FLASH_ATTN"),
    ("0.33.0", query(AMPERE, has_sink=True, head_size=64), "TRITON_ATTN"),
    ("0.27.1", query(DESK, has_sink=True, head_size=64), "TRITON_ATTN"),
    ("0.28.0", query(DESK, has_sink=True, head_size=64), "FLASHINFER"),
    ("0.33.0", query(BLACKWELL, head_size=80), "FLASH_ATTN"),
    ("0.33.0", query(AMPERE, "fp8", head_size=80), "TRITON_ATTN"),
    ("0.33.0", query(AMPERE, head_size=512), "FLASHINFER"),
    ("0.33.0", query(HOPPER, dtype="float32"), "TRITON_ATTN"),
    ("0.26.0", query(HOPPER, has_sink=True, run_cache_dtype="turboquant_k8v4"), "TRITON_ATTN"),
    ("0.33.0", query(BLACKWELL, attn_type="encoder_only"), "FLASH_ATTN"),
    ("0.33.0", query(BLACKWELL, use_non_causal=True), "FLASH_ATTN"),
    ("0.25.1", query(BLACKWELL, use_non_causal=True), "FLASHINFER"),
    ("0.25.1", query(HOPPER, head_size=256, use_mm_prefix=True), "TRITON_ATTN"),
    ("0.33.0", query(HOPPER, head_size=256, use_mm_prefix=True), "TRITON_FLASH_ATTN"),
    ("0.33.0", query(BLACKWELL, head_size=256, use_mm_prefix=True), "TRITON_FLASHINFER"),
    ("0.33.0", query(AMPERE, use_dcp=True, dcp_size=2, kv_cache_dtype="int8_per_token_head"), None),
    ("0.29.0", query(AMPERE, use_dcp=True, dcp_size=2, kv_cache_dtype="int8_per_token_head"), "TRITON_ATTN"),
]

LATENT_CASES = [
    ("0.33.0", mla(HOPPER), "FLASH_ATTN_MLA"),
    ("0.33.0", mla(HOPPER, "fp8"), "FLASHMLA"),
    ("0.33.0", mla(BLACKWELL), "FLASHINFER_MLA"),
    ("0.33.0", mla(BLACKWELL, latent=Latent(512, 64, 96, 128)), "CUTLASS_MLA"),
    ("0.18.1", mla(BLACKWELL, latent=Latent(512, 64, 192, 128)), "CUTLASS_MLA"),
    ("0.19.1", mla(BLACKWELL, latent=Latent(512, 64, 192, 128)), "FLASHINFER_MLA"),
    ("0.33.0", mla(AMPERE, "fp8"), "TRITON_MLA"),
    ("0.17.1", mla(AMPERE, "fp8"), None),
    ("0.33.0", mla(HOPPER, "fp8_e5m2"), None),
    ("0.24.0", sparse(HOPPER), "FLASHMLA_SPARSE"),
    ("0.25.1", sparse(HOPPER), "FLASH_ATTN_MLA_SPARSE"),
    ("0.25.1", sparse(HOPPER, "fp8_ds_mla"), "FLASHMLA_SPARSE"),
    ("0.17.1", sparse(HOPPER, "fp8"), None),
    ("0.18.1", sparse(HOPPER, "fp8"), "FLASHMLA_SPARSE"),
    ("0.29.0", sparse(HOPPER, "fp8_e4m3"), None),
    ("0.31.0", sparse(HOPPER, "fp8_e4m3"), "FLASHINFER_MLA_SPARSE_SM90"),
    ("0.16.0", sparse(BLACKWELL), "FLASHMLA_SPARSE"),
    ("0.17.1", sparse(BLACKWELL), "FLASHINFER_MLA_SPARSE"),
    ("0.17.1", sparse(BLACKWELL, num_heads=32), "FLASHMLA_SPARSE"),
    ("0.18.1", sparse(BLACKWELL, "fp8", num_heads=32), "FLASHMLA_SPARSE"),
    ("0.19.1", sparse(BLACKWELL, "fp8", num_heads=32), "FLASHINFER_MLA_SPARSE"),
    ("0.33.0", sparse(BLACKWELL), "FLASH_ATTN_MLA_SPARSE_FA4"),
    ("0.33.0", sparse(BLACKWELL, num_heads=128), "FLASHMLA_SPARSE"),
    ("0.33.0", sparse(BLACKWELL, "nvfp4_ds_mla"), "FLASHMLA_SPARSE"),
    ("0.33.0", sparse(HOPPER, "nvfp4_ds_mla"), None),
    ("0.23.0", sparse(DESK), None),
    ("0.24.0", sparse(DESK), "FLASHINFER_MLA_SPARSE_SM120"),
    ("0.24.0", sparse(DESK, latent=replace(DEEPSEEK_SPARSE, index_topk=1024)), None),
    ("0.33.0", sparse(ADA), None),
]


@pytest.mark.parametrize(("release", "asked", "expected"), STANDARD_CASES + LATENT_CASES)
def test_backend_of_a_layer(release: str, asked: BackendQuery, expected: str | None) -> None:
    assert select(asked, resolve(release)).backend == expected


REASON_CASES = [
    ("0.33.0", query(TURING), "FLASH_ATTN", ("compute capability not supported",)),
    ("0.17.1", query(BLACKWELL, has_sink=True), "FLASH_ATTN", ("sink setting not supported",)),
    ("0.33.0", query(AMPERE, has_sink=True), "FLASH_ATTN", ("attention sinks not supported",
                                                            "sink not supported on compute capability < 9.0")),
    ("0.33.0", query(HOPPER, has_sliding_window=True), "TURBOQUANT", ("kv_cache_dtype not supported",
                                                                      "sliding window not supported")),
    ("0.33.0", mla(BLACKWELL), "FLASH_ATTN_MLA", ("compute capability not supported",
                                                  "FlashAttention MLA not supported on this device")),
    ("0.33.0", mla(BLACKWELL), "FLASHMLA", ("FlashMLA Dense is only supported on Hopper devices.",)),
    ("0.33.0", sparse(HOPPER), "TRITON_MLA", ("sparse not supported",)),
    ("0.33.0", sparse(HOPPER, num_heads=128, use_dcp=True, dcp_size=2), "FLASH_ATTN_MLA_SPARSE",
     ("DCP not supported", "FlashAttention MLA Sparse does not support DCP for now")),
    ("0.33.0", query(HOPPER, head_size=256, use_mm_prefix=True), "FLASH_ATTN",
     ("mm_prefix (PrefixLM bidirectional attention) requires FlashAttention v4, "
      "which does not resolve for this head_size",)),
    ("0.27.1", query(ADA, "fp8"), "FLASH_ATTN",
     ("kv_cache_dtype not supported", "FP8 KV cache requires FA3 on SM90 or FA4 on SM100")),
]  # fmt: skip


@pytest.mark.parametrize(("release", "asked", "backend", "expected"), REASON_CASES)
def test_reasons_against_a_backend(release: str, asked: BackendQuery, backend: str, expected: tuple[str, ...]) -> None:
    assert reasons(BY_NAME[backend], asked, resolve(release)) == expected


def test_block_size_takes_part_from_0_18() -> None:
    asked = query(BLACKWELL, block_size=8)
    assert select(asked, resolve("0.17.1")).backend == "FLASHINFER"
    decision = select(asked, resolve("0.19.1"))
    assert decision.backend == "FLEX_ATTENTION"
    assert decision.precluded_by_block_size == ("FLASHINFER", "FLASH_ATTN", "TRITON_ATTN")
    refused = select(asked, resolve("0.33.0"))
    assert refused.backend is None
    assert {objections for _, objections in refused.rejected[:4]} == {("block_size not supported",)}


def test_no_backend_says_why_in_order_of_priority() -> None:
    decision = select(sparse(HOPPER, "fp8_e4m3"), resolve("0.29.0"))
    assert decision.error_type == "ValueError"
    assert decision.error is not None
    assert decision.error.startswith("No valid attention backend found for cuda")
    assert "FLASHMLA_SPARSE: [kv_cache_dtype not supported]" in decision.error
    assert [name for name, _ in decision.rejected][:2] == ["FLASH_ATTN_MLA", "FLASHMLA"]


def test_requested_backend_is_the_only_candidate() -> None:
    chosen = select(query(HOPPER, requested="triton_attn"), resolve("0.33.0"))
    assert (chosen.backend, chosen.valid) == ("TRITON_ATTN", ("TRITON_ATTN",))
    refused = select(query(AMPERE, "fp8", requested="FLASH_ATTN"), resolve("0.26.0"))
    assert refused.error == (
        "Selected backend AttentionBackendEnum.FLASH_ATTN is not valid for this configuration. "
        "Reason: ['kv_cache_dtype not supported']"
    )


def test_requested_auto_is_no_request() -> None:
    assert select(query(HOPPER, requested="auto"), resolve("0.33.0")).backend == "FLASH_ATTN"


def test_requested_backend_of_another_release_is_refused() -> None:
    assert select(query(HOPPER, requested="TREE_ATTN"), resolve("0.20.2")).backend == "TREE_ATTN"
    assert select(query(HOPPER, requested="TREE_ATTN"), resolve("0.21.0")).backend is None


def test_dtypes_that_would_find_a_backend() -> None:
    assert dtypes_with_backend(sparse(HOPPER, "fp8_e4m3"), resolve("0.29.0")) == (
        "auto",
        "float16",
        "bfloat16",
        "fp8",
        "fp8_ds_mla",
    )


RELEASES = st.sampled_from(KNOWN)
CAPABILITIES = st.sampled_from(
    [(7, 0), (7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (10, 3), (11, 0), (12, 0), (12, 1)]
)


QUERIES = st.builds(
    query,
    CAPABILITIES,
    st.sampled_from([row.name for row in CACHE_DTYPES if row.cuda]),
    head_size=st.sampled_from([32, 64, 80, 96, 128, 192, 256, 512, 576]),
    use_mla=st.booleans(),
    use_sparse=st.booleans(),
    has_sink=st.booleans(),
    has_sliding_window=st.booleans(),
    use_mm_prefix=st.booleans(),
    use_non_causal=st.booleans(),
    use_dcp=st.booleans(),
    block_size=st.sampled_from([None, 1, 16, 48, 64, 128]),
    num_heads=st.sampled_from([8, 16, 64]),
    latent=st.sampled_from([None, DEEPSEEK, DEEPSEEK_SPARSE]),
)


@given(RELEASES, QUERIES)
def test_every_candidate_is_judged_once(release: str, asked: BackendQuery) -> None:
    known = resolve(release)
    decision = select(asked, known)
    judged = [name for name, _ in decision.rejected] + list(decision.valid)
    order = priority.order(asked, known)
    assert sorted(judged) == sorted(order)
    assert (decision.backend is None) == (decision.error is not None) == (not decision.valid)
    assert all(known.within(BY_NAME[name]) for name in order)
    if decision.backend is not None:
        assert decision.backend == min(decision.valid, key=order.index)
