"""The emulated start-up as a whole, on catalog models: the cases that people run into."""

from __future__ import annotations

import pytest

from kvplan.engine import Plan
from kvplan.engine.failures import ViewMismatch
from kvplan.engine.values import Stage
from tests import asking

GIB = 1 << 30


def planned(command: str, release: str, gpu: str = "h200", memory: int | None = 60 * GIB) -> Plan:
    return asking.planned(f"vllm serve {command}", release=release, gpu=gpu, memory=memory)


GLM = "zai-org/GLM-5.2-FP8 --kv-cache-dtype fp8 -tp 8"
SKIP = f"{GLM} --kv-cache-dtype-skip-layers 0 1"


@pytest.mark.parametrize(
    ("release", "command", "block_size", "blocks", "tokens"),
    [
        # 78 x 64 x 656 + 21 x 64 x 132 = 3,452,160 bytes a block; 60 GiB hold 18,662.
        ("0.24.0", SKIP, 64, 18_662, 1_194_368),
        # 2 x 128 x 1,152 + 76 x 128 x 656 + 21 x 128 x 132 = 7,031,296 bytes a block.
        ("0.26.0", SKIP, 128, 9_162, 1_172_736),
        ("0.33.0", SKIP, 128, 9_162, 1_172_736),
        ("0.33.0", f"{GLM} --kv-cache-dtype-skip-layers 0,1", 128, 9_331, 1_194_368),
    ],
)
def test_glm_5_2_on_h200(release: str, command: str, block_size: int, blocks: int, tokens: int) -> None:
    result = planned(command, release)
    assert result.ok
    assert result.settings is not None
    assert result.capacity is not None
    assert result.settings.block_size == block_size
    assert (result.capacity.num_blocks, result.capacity.tokens) == (blocks, tokens)


def test_the_view_crash_of_0_25_comes_out_by_computation() -> None:
    result = planned(GLM, "0.25.1")
    assert result.error is not None
    assert result.error.stage is Stage.KV_CACHE_VIEW
    assert result.error.message == "shape '[18662, 64, 576]' is invalid for input of size 783505408"
    _, facts = next(result.failures(ViewMismatch))
    assert (facts.allocated_bytes_per_token, facts.viewed_bytes_per_token) == (656, 576)
    raised = planned(SKIP, "0.25.1")
    assert raised.error is not None
    assert raised.error.stage is Stage.KV_CACHE_VIEW
    assert raised.capacity is not None
    assert raised.capacity.num_blocks == 9_331
    assert raised.skip.ignored_layers == (0, 1)


def test_a_skipped_layer_is_canonicalised_back_on_sm120() -> None:
    result = planned(
        "deepseek-ai/DeepSeek-V3.2 --kv-cache-dtype fp8 --kv-cache-dtype-skip-layers 0", "0.33.0", "rtx5090"
    )
    assert result.skip.canonicalised_layers == (0,)
    main = [layer for layer in result.layers if layer.role == "attention"]
    assert {layer.cache_dtype for layer in main} == {"fp8_ds_mla"}


@pytest.mark.parametrize(("release", "backend"), [("0.30.0", None), ("0.31.0", "FLASHINFER_MLA_SPARSE_SM90")])
def test_fp8_e4m3_on_h200_finds_a_sparse_backend_from_0_31(release: str, backend: str | None) -> None:
    result = planned("zai-org/GLM-5.2-FP8 --kv-cache-dtype fp8_e4m3 -tp 8", release)
    if backend is None:
        assert result.error is not None
        assert result.error.code == "no_backend"
        assert "fp8" in result.backends[-1].dtypes_with_backend
    else:
        assert {layer.backend for layer in result.layers if layer.role == "attention"} == {backend}


def test_auto_becomes_fp8_on_b200_from_0_32() -> None:
    before = planned("zai-org/GLM-5.2-FP8 -tp 8", "0.31.0", "b200")
    after = planned("zai-org/GLM-5.2-FP8 -tp 8", "0.32.0", "b200")
    assert before.settings is not None
    assert after.settings is not None
    assert (before.settings.cache_dtype, after.settings.cache_dtype) == ("auto", "fp8_e4m3")


def test_the_sliding_reserve_counts_batches_in_flight_from_0_26() -> None:
    # gpt-oss-120b, 18 sliding and 18 full layers: the reserve of 128 - 1 + 8,192 tokens becomes 128 - 1 + 16,384.
    def of(release: str) -> tuple[int | None, float | None]:
        capacity = planned("openai/gpt-oss-120b", release, memory=40 * GIB).capacity
        assert capacity is not None
        return capacity.tokens, capacity.max_concurrency

    assert of("0.19.1")[0] == 582_528
    assert of("0.25.1")[0] == 1_095_405
    assert of("0.26.0")[0] == 1_034_609


def test_a_pool_too_small_names_the_longest_request() -> None:
    result = planned("meta-llama/Llama-3.1-8B --max-model-len 131072", "0.33.0", memory=4 * GIB)
    assert result.error is not None
    assert result.error.code == "pool_too_small"
    # 4 GiB hold 2,048 blocks of 32 x 65,536 bytes; one is the null block, so 2,047 x 16 tokens fit.
    assert result.capacity is not None
    assert result.capacity.num_blocks == 2_048
    assert result.capacity.longest_request_tokens == 32_752


def test_the_null_block_counts_from_0_29() -> None:
    older = planned("meta-llama/Llama-3.1-8B --max-model-len 131072", "0.28.0", memory=4 * GIB)
    assert older.capacity is not None
    assert older.capacity.longest_request_tokens == 32_768


def test_automatic_length_fits_the_pool() -> None:
    result = planned("meta-llama/Llama-3.1-8B --max-model-len auto", "0.33.0", memory=4 * GIB)
    assert result.ok
    assert result.capacity is not None
    assert result.capacity.max_model_len == 32_752


def test_pipeline_stages_share_the_smallest_number_of_blocks() -> None:
    # 62 layers over 3 stages: 20 each, and the two left over go to the middle and then to the first.
    result = planned("google/gemma-3-27b-it -pp 3", "0.33.0")
    assert sorted({layer.rank for layer in result.layers}) == [0, 1, 2]
    assert [sum(layer.rank == rank for layer in result.layers) for rank in range(3)] == [21, 21, 20]


def test_a_refused_option_is_the_outcome() -> None:
    result = planned("meta-llama/Llama-3.1-8B --kv-cache-dtype int8", "0.32.0")
    assert result.error is not None
    assert result.error.stage is Stage.OPTIONS
    assert result.layers == ()


def test_the_trace_names_history_entries() -> None:
    result = planned(SKIP, "0.33.0")
    named = {step.behaviour.name for step in result.trace if step.behaviour is not None}
    assert {"SKIP_LIST_ALIGNS_BLOCK_SIZE", "FP8_DS_MLA_BY_BACKEND"} <= named


def test_falcon_layers_never_see_the_cache_config() -> None:
    result = planned("tiiuae/falcon-7b-instruct --kv-cache-dtype fp8 --kv-cache-dtype-skip-layers 0 1", "0.31.0")
    assert {layer.cache_dtype for layer in result.layers} == {"auto"}
    assert {layer.storage_dtype for layer in result.layers} == {"bfloat16"}
    # The launch still believes in fp8: the list raises the block size all the same.
    assert {layer.block_size for layer in result.layers} == {32}


def test_block_steps_tell_what_grouping_made_of_smaller_pages() -> None:
    """Gemma 4: sliding pages of 131,072 bytes at 16 tokens; the full layers' of half that take 32."""
    steps = planned("google/gemma-4-26B-A4B-it", "0.25.1", "h100").block_size_steps
    assert [(step.block_size, step.cause) for step in steps] == [(16, "default"), (32, "unification")]
    assert steps[-1].text == "16 times 2, so that these pages are as large as the largest (131,072 B)"


def test_the_curve_is_computed_and_no_line_below_the_windows() -> None:
    """At 1,024 tokens the full group takes 64 blocks and each of six sliding groups 65, windows or not; at 32,768
    tokens, where the reserve of 1,023 + 2 x 8,192 tokens is complete, 2,048 and 1,089 each."""
    found = planned("google/gemma-3-27b-it", "0.33.0", memory=40 * GIB).capacity
    assert found is not None
    assert found.num_blocks is not None
    curve = dict(found.curve)
    assert [length for length, _ in found.curve] == [1 << exponent for exponent in range(10, 18)]
    assert curve[1_024] == found.num_blocks / (64 + 6 * 65)
    assert curve[32_768] == found.num_blocks / (2_048 + 6 * 1_089)
    assert curve[131_072] == found.max_concurrency
    assert {fit.tokens: fit.concurrency for fit in found.lengths}.items() <= curve.items()


def test_the_curve_ends_with_the_longest_request_and_needs_memory() -> None:
    command = "meta-llama/Llama-3.1-8B --max-model-len 5000"
    with_memory, without = (planned(command, "0.33.0", memory=memory).capacity for memory in (40 * GIB, None))
    assert with_memory is not None
    assert without is not None
    assert [length for length, _ in with_memory.curve] == [1_024, 2_048, 4_096, 5_000]
    assert without.curve == ()


def test_the_oldest_release_gives_every_stage_blocks_of_the_whole_model() -> None:
    """DeepSeek-V3.2, 61 layers: a block of 64 tokens is 61 * (73,728 + 8,448) = 5,012,736 bytes on each of two stages
    in 0.16.0; 60 GiB hold 12,852. From 0.17.1 on the heavier stage has 31 layers, 2,547,456 bytes: 25,289."""
    command = "deepseek-ai/DeepSeek-V3.2 -pp 2 --max-model-len 4096"
    for release, blocks in (("0.16.0", 12_852), ("0.17.1", 25_289)):
        capacity = planned(command, release).capacity
        assert capacity is not None
        assert (capacity.num_blocks, capacity.tokens) == (blocks, blocks * 64)
