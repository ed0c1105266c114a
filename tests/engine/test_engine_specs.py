"""Page formulas and what a request needs, with worked numbers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvplan.engine.specs.base import (
    BareAssertion,
    FullAttentionSpec,
    LayerSpec,
    MLAAttentionSpec,
    RequestLimits,
    SlidingWindowSpec,
    attention_token_bytes,
    can_merge,
    latent_token_bytes,
    same_type,
)
from kvplan.releases import resolve

NEWEST = resolve("0.33.0")


def full(block_size: int = 16, *, window: int | None = None, token_bytes: int = 4096) -> FullAttentionSpec:
    return FullAttentionSpec(
        block_size=block_size,
        num_kv_heads=8,
        head_size=128,
        head_size_v=128,
        dtype="bfloat16",
        quant_mode="NONE",
        token_bytes=token_bytes,
        sliding_window=window,
    )


def sliding(block_size: int = 16, *, window: int = 1024, padded: int | None = None) -> SlidingWindowSpec:
    return SlidingWindowSpec(
        block_size=block_size,
        num_kv_heads=8,
        head_size=128,
        head_size_v=128,
        dtype="bfloat16",
        quant_mode="NONE",
        token_bytes=4096,
        sliding_window=window,
        page_size_padded=padded,
    )


def latent(block_size: int = 64, *, cache_dtype: str = "auto", indexer: bool = False) -> MLAAttentionSpec:
    return MLAAttentionSpec(
        block_size=block_size,
        num_kv_heads=1,
        head_size=132 if indexer else 576,
        head_size_v=0,
        dtype="uint8" if indexer else "bfloat16",
        quant_mode="NONE",
        token_bytes=132 if indexer else latent_token_bytes(cache_dtype, 576, "bfloat16"),
        cache_dtype=None if indexer else cache_dtype,
        indexer=indexer,
    )


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        # Llama-3-8B: 8 heads x (128 + 128) x 2 bytes = 4,096 a token, 65,536 a page of 16.
        ("bfloat16", 65_536),
        # The same as one-byte fp8: 2,048 a token.
        ("uint8", 32_768),
        # float32: 8,192 a token.
        ("float32", 131_072),
    ],
)
def test_page_of_plain_attention(dtype: str, expected: int) -> None:
    token = attention_token_bytes(NEWEST, num_kv_heads=8, head_size=128, head_size_v=None, dtype=dtype, sliding=False)
    assert 16 * token == expected


def test_value_head_counts_in_sliding_pages_since_0_20() -> None:
    # MiMo-V2: 1 head, key 192, value 128: (192 + 128) x 2 = 640 bytes a token; before, 2 x 192 x 2 = 768.
    def token(release: str, *, is_sliding: bool) -> int:
        return attention_token_bytes(
            resolve(release), num_kv_heads=1, head_size=192, head_size_v=128, dtype="bfloat16", sliding=is_sliding
        )

    assert token("0.20.2", is_sliding=True) == 640
    assert token("0.19.1", is_sliding=True) == 768
    assert token("0.19.1", is_sliding=False) == 640


@pytest.mark.parametrize(
    ("cache_dtype", "dtype", "expected"),
    [
        # DeepSeek-V3: 576 latent elements a token, 64 tokens a block.
        ("auto", "bfloat16", 73_728),
        ("fp8", "uint8", 36_864),
        # 512 fp8 values, 4 fp32 scales, 64 bf16 RoPE values: 656 bytes a token.
        ("fp8_ds_mla", "uint8", 41_984),
        ("nvfp4_ds_mla", "uint8", 22_528),
    ],
)
def test_page_of_latent_attention(cache_dtype: str, dtype: str, expected: int) -> None:
    assert 64 * latent_token_bytes(cache_dtype, 576, dtype) == expected


def test_page_of_an_indexer() -> None:
    # 128 one-byte key elements and one 4-byte scale: 132 bytes a token.
    assert latent(indexer=True).page_bytes == 8_448


def test_padding_to_less_than_the_page_is_the_bare_assertion() -> None:
    assert sliding(padded=131_072).page_bytes == 131_072
    with pytest.raises(BareAssertion) as failed:
        _ = sliding(padded=65_535).page_bytes
    assert failed.value.facts.page_bytes == 65_536


def test_blocks_of_one_request() -> None:
    limits = RequestLimits(max_model_len=131_072, in_flight_tokens=16_384)
    # 131,072 / 16.
    assert full().request_blocks(limits) == 8_192
    # (1,024 - 1 + 16,384) / 16 rounded up, and one more for a ragged start.
    assert sliding().request_blocks(limits) == 1_089
    # Never more than the request itself: 8,000 / 16 + 1.
    assert sliding().request_blocks(RequestLimits(8_000, 16_384)) == 501


def test_what_merges() -> None:
    assert can_merge([full(), full()])
    assert can_merge([full(), full(window=1024)])
    assert not can_merge([full(), full(block_size=32)])
    assert not can_merge([full(), sliding()])
    assert not can_merge([latent(), latent(indexer=True)])
    assert not can_merge([latent(), latent(cache_dtype="fp8_ds_mla")])
    with pytest.raises(ValueError, match="same window size"):
        can_merge([full(window=512), full(window=1024)])


def test_what_shares_a_block_table() -> None:
    assert same_type([latent(), latent(indexer=True), latent(cache_dtype="fp8_ds_mla")])
    assert same_type([full(), full(token_bytes=1024), latent(block_size=16)])
    assert not same_type([full(), full(block_size=32)])
    assert same_type([sliding(), sliding()])
    assert not same_type([sliding(), sliding(window=512)])
    assert not same_type([full(), sliding()])


SPECS: st.SearchStrategy[LayerSpec] = st.one_of(
    st.builds(full, st.sampled_from([16, 32, 64]), window=st.just(None), token_bytes=st.integers(1, 10_000)),
    st.builds(sliding, st.sampled_from([16, 32, 64]), window=st.integers(1, 100_000)),
    st.builds(latent, st.sampled_from([64, 128]), cache_dtype=st.sampled_from(["auto", "fp8_ds_mla"])),
)


@given(spec=SPECS, length=st.integers(1, 10**7), in_flight=st.integers(1, 10**6))
def test_a_longer_request_never_needs_less(spec: LayerSpec, length: int, in_flight: int) -> None:
    shorter = spec.request_blocks(RequestLimits(length, in_flight))
    longer = spec.request_blocks(RequestLimits(length + 1, in_flight))
    assert 0 < shorter <= longer


@given(spec=SPECS)
def test_every_spec_merges_with_itself(spec: LayerSpec) -> None:
    assert can_merge([spec, spec])
    assert same_type([spec, spec])
