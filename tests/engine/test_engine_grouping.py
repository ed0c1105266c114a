"""Unifying pages and forming groups, with the arithmetic in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from kvplan.engine.failures import AssertionFails
from kvplan.engine.groups.grouping import Grouping, group
from kvplan.engine.specs.base import FullAttentionSpec, LayerSpec, MLAAttentionSpec, SlidingWindowSpec
from kvplan.engine.stop import StartupStops
from kvplan.engine.values import Stage
from kvplan.releases import resolve

FULL = FullAttentionSpec(
    block_size=16,
    num_kv_heads=8,
    head_size=128,
    head_size_v=128,
    dtype="bfloat16",
    quant_mode="NONE",
    token_bytes=4096,
)
SLIDING = SlidingWindowSpec(
    block_size=16,
    num_kv_heads=8,
    head_size=128,
    head_size_v=128,
    dtype="bfloat16",
    quant_mode="NONE",
    token_bytes=4096,
    sliding_window=1024,
)
LATENT = MLAAttentionSpec(
    block_size=64,
    num_kv_heads=1,
    head_size=576,
    head_size_v=0,
    dtype="bfloat16",
    quant_mode="NONE",
    token_bytes=1152,
    cache_dtype="auto",
)


def layers(pattern: Mapping[str, tuple[LayerSpec, int]]) -> dict[str, LayerSpec]:
    return {f"{name}.{i}": spec for name, (spec, count) in pattern.items() for i in range(count)}


def grouped(specs: Mapping[str, LayerSpec], release: str = "0.33.0", *, disabled: bool = False) -> Grouping:
    return group(specs, resolve(release), hybrid_manager_disabled=disabled, layout="LBNHC")


def sizes(grouping: Grouping) -> list[int]:
    return [len(each.layers) for each in grouping.groups]


def test_one_spec_makes_one_group() -> None:
    result = grouped(layers({"full": (FULL, 32)}))
    assert sizes(result) == [32]
    assert not result.groups[0].uniform
    assert result.groups[0].page_bytes == 65_536


def test_latent_rows_and_their_indexers_share_a_table() -> None:
    indexer = replace(LATENT, head_size=132, dtype="uint8", token_bytes=132, cache_dtype=None, indexer=True)
    result = grouped(layers({"attn": (LATENT, 61), "indexer": (indexer, 61)}))
    assert sizes(result) == [122]
    # 61 x (64 x 1,152 + 64 x 132) = 61 x 82,176.
    assert result.groups[0].page_bytes == 5_012_736


def test_gemma_3_27b_groups() -> None:
    # 52 sliding and 10 full layers: groups of 10, so 6 + 1 of them, the last sliding one short of layers.
    result = grouped(layers({"sw": (SLIDING, 52), "full": (FULL, 10)}))
    assert sorted(sizes(result)) == [8, 8, 9, 9, 9, 9, 10]


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        # 28 < 20 x 1.5: one group of each kind; before 0.18 the factor was 1.25, and 28 > 25.
        ("0.33.0", [28, 20]),
        ("0.17.1", [14, 14, 20]),
    ],
)
def test_group_length_takes_the_larger_bucket_up_to_a_factor(release: str, expected: list[int]) -> None:
    assert sizes(grouped(layers({"sw": (SLIDING, 28), "full": (FULL, 20)}), release)) == expected


def test_a_smaller_page_grows_by_its_block() -> None:
    # fp8 beside bfloat16: half the bytes a token, so twice the tokens a block.
    half = replace(FULL, dtype="uint8", token_bytes=2048)
    result = grouped(layers({"sw": (SLIDING, 12), "full": (half, 12)}))
    assert {each.page_bytes for each in result.groups} == {65_536}
    assert sorted(each.block_size for each in result.groups) == [16, 32]


@pytest.mark.parametrize(
    ("release", "text"),
    [
        ("0.23.0", "not divisible by the maximum page size"),
        ("0.24.0", "indexes KV pages by the block stride"),
    ],
)
def test_pages_that_do_not_divide_are_refused(release: str, text: str) -> None:
    odd = replace(FULL, token_bytes=1152)
    with pytest.raises(StartupStops) as stopped:
        grouped(layers({"sw": (SLIDING, 12), "full": (odd, 12)}), release)
    assert stopped.value.error.type == "NotImplementedError"
    assert stopped.value.error.code == "pages_not_unifiable"
    assert text in stopped.value.error.message


def test_pages_that_do_not_divide_are_padded_where_the_backend_can() -> None:
    odd = replace(FULL, token_bytes=1152, indexes_by_block_stride=True)
    for release in ("0.24.0", "0.29.0"):
        result = grouped(layers({"sw": (SLIDING, 12), "full": (odd, 12)}), release)
        assert {each.page_bytes for each in result.groups} == {65_536}


def test_latent_pages_are_never_padded() -> None:
    odd = replace(LATENT, block_size=16, token_bytes=656)
    with pytest.raises(StartupStops) as stopped:
        grouped(layers({"sw": (replace(SLIDING, token_bytes=4100), 12), "mla": (odd, 12)}), "0.26.0")
    assert stopped.value.error.code == "pages_not_unifiable"


def test_sliding_layers_beside_latent_ones_fall_back_to_full_allocation() -> None:
    # 64 x 1,000 bytes do not divide 64 x 1,152; 0.28 may pad by block stride only, later releases pad any window.
    specs = layers({"sw": (replace(SLIDING, block_size=64, token_bytes=1000), 5), "mla": (LATENT, 61)})
    result = grouped(specs, "0.28.0")
    assert sizes(result) == [66]
    assert result.groups[0].uniform


@pytest.mark.parametrize(("release", "stage"), [("0.32.0", Stage.GROUPING), ("0.33.0", Stage.SPECS)])
def test_gpt_oss_with_a_skipped_full_layer_is_a_bare_assertion(release: str, stage: Stage) -> None:
    # gpt-oss, fp8, skip 0 1: the skip list fixes sliding pages at 32 x 1,024 = 32,768 bytes, but layer 1 keeps
    # 2,048 bytes a token in blocks of 32, 65,536 a page; scaling the block does not move a padded page.
    skipped = replace(FULL, block_size=32, num_kv_heads=8, head_size=64, token_bytes=2048)
    quantised = replace(skipped, token_bytes=1024, dtype="uint8", quant_mode="FP8_PER_TENSOR")
    window = replace(SLIDING, block_size=32, token_bytes=1024, page_size_padded=32_768, dtype="uint8")
    specs = layers({"sw": (window, 18), "skipped": (skipped, 1), "full": (quantised, 17)})
    with pytest.raises(StartupStops) as stopped:
        grouped(specs, release)
    error = stopped.value.error
    assert (error.stage, error.type, error.message) == (stage, "AssertionError", "")
    assert isinstance(error.facts, AssertionFails)
    assert (error.facts.page_bytes, error.facts.padded_page_bytes) == (65_536, 32_768)


def test_hybrid_manager_off_allocates_windows_in_full() -> None:
    result = grouped(layers({"sw": (SLIDING, 12), "full": (FULL, 12)}), disabled=True)
    assert sizes(result) == [24]
    assert all(isinstance(spec, FullAttentionSpec) for spec in result.groups[0].specs)


def test_a_worker_keeps_its_own_layers() -> None:
    result = grouped(layers({"sw": (SLIDING, 4), "full": (FULL, 4)}))
    mine = frozenset({"sw.0", "sw.1", "full.0", "full.1"})
    assert [each.on_worker(mine).layers for each in result.groups] == [("sw.0", "sw.1"), ("full.0", "full.1")]
    assert [each.on_worker(frozenset()).page_bytes for each in result.groups] == [65_536, 65_536]
