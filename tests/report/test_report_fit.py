"""The fit answers of `kvplan plan`: one request by kind of layer, beside the textbook, and how many fit at once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kvplan.engine.values import Plan
from kvplan.report.textbook import textbook
from tests.asking import kvplan, told

FORTY = ("--available-kv-memory", "40GiB")


def capacity(*arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = told("plan", "--offline", *arguments)["capacity"]
    return found


def test_gemma_by_kind_of_layer() -> None:
    """52 sliding layers keep 1,023 + 2 x 8,192 tokens in 1,089 blocks of 131,072 bytes, and 10 full layers all."""
    told = capacity("gemma-3-27b-it", "--vllm-version", "0.33.0", *FORTY)
    sliding, full = told["kinds"]
    assert (sliding["layers"], sliding["sliding_window"], full["layers"]) == (52, 1024, 10)
    assert sliding["request_bytes"] == sliding["fixed_bytes"] == 52 * (-(-(1023 + 2 * 8192) // 16) + 1) * 131_072
    assert (full["fixed_bytes"], full["bytes_per_token"]) == (0, 10 * 8192)
    assert full["request_bytes"] == 131_072 * 10 * 8192
    # Six groups of ten share the blocks, and the sliding layers fill five and a fifth of them.
    assert told["unused_bytes"] == 8 * 1089 * 131_072
    assert sliding["request_bytes"] + full["request_bytes"] + told["unused_bytes"] == told["needed_bytes"]
    assert told["textbook"] == {"bytes_per_token": 507_904, "formula": "2 x 62 layers x 16 KV heads x 128 x 2 B"}


@pytest.mark.parametrize("release", ["0.16.0", "0.19.1", "0.25.1", "0.29.0", "0.33.0"])
@pytest.mark.parametrize(
    "model", ["gpt-oss-120b", "Llama-3.1-8B", "gemma-3-27b-it", "DeepSeek-V3", "Qwen3-Next-80B-A3B-Instruct"]
)
def test_lengths_and_kinds_agree_with_the_log(model: str, release: str) -> None:
    told = capacity(model, "--vllm-version", release, *FORTY)
    last = told["lengths"][-1]
    assert last["tokens"] == told["max_model_len"]
    assert last["concurrency"] == told["max_concurrency"]
    assert last["request_bytes"] == sum(kind["request_bytes"] for kind in told["kinds"]) + told["unused_bytes"]
    assert [fit["tokens"] for fit in told["lengths"][:3]] == [8192, 32_768, 131_072]
    times = [fit["concurrency"] for fit in told["lengths"]]
    assert times == sorted(times, reverse=True)


@pytest.mark.parametrize(
    ("arguments", "figure", "formula"),
    [
        (("Llama-3.1-8B",), 131_072, "2 x 32 layers x 8 KV heads x 128 x 2 B"),
        (("Llama-3.1-8B", "-tp", "4"), 32_768, "2 x 32 layers x 8 KV heads x 128 x 2 B / 4 GPUs"),
        (("Llama-3.1-8B", "--kv-cache-dtype", "fp8"), 65_536, "2 x 32 layers x 8 KV heads x 128 x 1 B"),
        (("DeepSeek-V3", "-tp", "8"), 70_272, "61 layers x 576 x 2 B"),
    ],
)
def test_the_textbook_says_how_it_is_computed(arguments: tuple[str, ...], figure: int, formula: str) -> None:
    assert capacity(*arguments)["textbook"] == {"bytes_per_token": figure, "formula": formula}


def test_without_memory_the_need_is_told_all_the_same() -> None:
    told = capacity("Llama-3.1-8B")
    assert [fit["concurrency"] for fit in told["lengths"]] == [None] * 3
    assert told["lengths"][0]["request_bytes"] == 8192 * 131_072
    text = kvplan("plan", "--offline", "Llama-3.1-8B").stdout
    assert "One request (per GPU, as vLLM reserves for it)" in text
    assert "fit at once" not in text


def test_the_text_shows_fixed_bytes_and_bytes_per_token() -> None:
    text = kvplan("plan", "--offline", "gemma-3-27b-it", "--vllm-version", "0.33.0", *FORTY).stdout
    words = " ".join(text.split())
    assert "sliding window 1,024 52 7,422,345,216 7,422,345,216 0" in words
    assert "all 62 19,301,662,720 8,564,244,480 81,920" in words
    assert "9.13x 8,192 tokens; 3.82x 32,768 tokens; 2.23x 131,072 tokens" in words
    assert max(map(len, text.splitlines())) <= 100


def test_no_textbook_where_nothing_is_known_or_scales_are_packed_in(good: Plan, refused: Plan) -> None:
    assert textbook(refused) is None
    assert good.settings is not None
    assert textbook(replace(good, settings=replace(good.settings, cache_dtype_after_load="nvfp4"))) is None
    assert textbook(replace(good, settings=replace(good.settings, cache_dtype_after_load="unheard_of"))) is None
    assert textbook(good) is not None
