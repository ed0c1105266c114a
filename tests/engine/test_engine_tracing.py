"""The arithmetic that the trace tells: its products are the pages, and its chain ends at what fits."""

from __future__ import annotations

import math
import re

import pytest

import kvplan
from kvplan.engine.values import Step

COMMANDS = (
    ("meta-llama/Llama-3.1-8B", "h200"),
    ("meta-llama/Llama-3.1-8B --kv-cache-dtype nvfp4", "b200"),
    ("meta-llama/Llama-3.1-8B --kv-cache-dtype int4_per_token_head -tp 4", "h100"),
    ("zai-org/GLM-5.2-FP8 --kv-cache-dtype fp8 -tp 8", "h200"),
    ("openai/gpt-oss-120b --kv-cache-dtype fp8", "h100"),
    ("google/gemma-4-31B-it", "h200"),
    ("Qwen/Qwen3-Next-80B-A3B-Instruct", "h200"),
    ("deepseek-ai/DeepSeek-V4-Flash", "h200"),
)
_ITEM = {"bfloat16": 2, "float32": 4, "float16": 2}


def _steps(command: str, gpu: str, value: str) -> list[Step]:
    planned = kvplan.plan(f"vllm serve {command}", gpu=gpu, available_kv_memory="60GiB")
    return [step for step in planned.trace if step.value == value]


def _product(cause: str) -> int:
    """What the words of a cause come to, worked out apart from the engine."""
    told = cause.rsplit(": ", 1)[-1]
    told = told.split(" = ")[0]
    if "bfloat16" in told or "float32" in told:
        tensors = re.findall(r"\(([\d, ]+)\) (\w+)", told)
        return sum(math.prod(map(int, shape.split(", "))) * _ITEM[dtype] for shape, dtype in tensors)
    factors = told.replace(",", "").split(" x ")
    return math.prod(sum(int(number) for number in re.findall(r"\d+", factor)) for factor in factors)


@pytest.mark.parametrize(("command", "gpu"), COMMANDS)
def test_the_products_are_the_pages(command: str, gpu: str) -> None:
    pages = [step for step in _steps(command, gpu, "layer.page_bytes") if step.stage == "specs"]
    assert pages
    for step in pages:
        padded = step.cause.endswith("padded")
        content = int(re.search(r"= ([\d,]+) B, padded", step.cause)[1].replace(",", "")) if padded else None  # type: ignore[index]
        page = int(step.result.replace(",", ""))
        assert _product(step.cause) == (page if content is None else content), step.cause
        assert content is None or content < page


def test_a_latent_row_skipped_and_not() -> None:
    # A block of 128 tokens: 128 x 656 = 83,968 bytes packed, 128 x 576 x 2 = 147,456 for the skipped layer 0.
    steps = _steps(
        "zai-org/GLM-5.2-FP8 --kv-cache-dtype fp8 -tp 8 --kv-cache-dtype-skip-layers 0", "h200", "layer.page_bytes"
    )
    told = {step.cause: (step.result, len(step.layers)) for step in steps}
    assert told["128 tokens x 1 KV head x 576 x 2 B"] == ("147,456", 1)
    assert told["128 tokens x 656 B"] == ("83,968", 77)


def test_what_unification_does_is_a_link_of_its_own() -> None:
    steps = _steps("google/gemma-4-31B-it", "h200", "layer.page_bytes")
    assert [(step.stage.value, step.result, step.cause) for step in steps] == [
        ("specs", "262,144", "16 tokens x 16 KV heads x (256 + 256) x 2 B"),
        ("specs", "131,072", "16 tokens x 4 KV heads x (512 + 512) x 2 B"),
        ("grouping", "262,144", "the block goes from 16 to 32 tokens, so that all pages are equal"),
    ]


def test_every_layer_has_a_cache_dtype() -> None:
    planned = kvplan.plan("vllm serve meta-llama/Llama-3.1-8B --kv-cache-dtype fp8 --kv-cache-dtype-skip-layers 3")
    steps = [step for step in planned.trace if step.value == "layer.cache_dtype"]
    assert sorted(index for step in steps for index in step.layers) == list(range(32))
    assert [step.result for step in steps if 3 in step.layers] == ["auto"]


def test_capacity_from_blocks_to_tokens() -> None:
    # 60 GiB = 64,424,509,440 B; a block of 16 tokens takes 32 x 65,536 = 2,097,152 B; 131,072 tokens are 8,192 blocks.
    planned = kvplan.plan("vllm serve meta-llama/Llama-3.1-8B", gpu="h200", available_kv_memory="60GiB")
    told = {step.value: (step.result, step.cause) for step in planned.trace if step.value.startswith("capacity.")}
    assert told == {
        "capacity.bytes_per_block": ("2,097,152", "one block in every layer, on one GPU"),
        "capacity.needed_bytes": ("17,179,869,184", "one request of 131,072 tokens: 8,192 blocks"),
        "capacity.num_blocks": ("30,720", "64,424,509,440 B // 2,097,152 B"),
        "capacity.max_concurrency": (
            "3.75",
            "how often 30,720 blocks hold a request of 131,072 tokens: 8,192 blocks",
        ),
        "capacity.tokens": ("491,520", "3.75 requests x 131,072 tokens"),
    }


def test_old_releases_count_tokens_by_group() -> None:
    planned = kvplan.plan(
        "vllm serve google/gemma-3-27b-it", gpu="h200", available_kv_memory="40GiB", vllm_version="0.19.1"
    )
    (tokens,) = (step for step in planned.trace if step.value == "capacity.tokens")
    assert (tokens.result, tokens.cause) == ("74,896", "32,768 blocks // 7 groups x tokens a block")


def test_an_estimate_is_a_link_too() -> None:
    planned = kvplan.plan("vllm serve meta-llama/Llama-3.1-8B", gpu="h100", weights="15GiB")
    (step,) = (step for step in planned.trace if step.value == "capacity.available_bytes")
    assert step.result == "62,573,017,825"
    assert step.cause.startswith("an estimate, on the high side: 78,679,145,185 B that may be used")
