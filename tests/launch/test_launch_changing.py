"""A launch with one change is the launch that the changed command line would be."""

from __future__ import annotations

import pytest

from kvplan.launch.changing import Change, changed, told
from tests.asking import launched

BASE = "vllm serve Qwen/Qwen3-8B -tp 2 --kv-cache-dtype fp8 --no-enable-prefix-caching"


@pytest.mark.parametrize(
    ("change", "words", "same_as"),
    [
        (Change(values=(("max_model_len", 8192),)), "--max-model-len 8192", f"{BASE} --max-model-len 8192"),
        (
            Change(without=("kv_cache_dtype",)),
            "drop --kv-cache-dtype",
            "vllm serve Qwen/Qwen3-8B -tp 2 --no-enable-prefix-caching",
        ),
        (
            Change(without=("tensor_parallel_size",)),
            "drop -tp",
            "vllm serve Qwen/Qwen3-8B --kv-cache-dtype fp8 --no-enable-prefix-caching",
        ),
        (
            Change(values=(("enable_prefix_caching", True),)),
            "--enable-prefix-caching",
            "vllm serve Qwen/Qwen3-8B -tp 2 --kv-cache-dtype fp8 --enable-prefix-caching",
        ),
        (
            Change(values=(("kv_cache_dtype_skip_layers", ["0", "sliding_window"]),)),
            "--kv-cache-dtype-skip-layers 0 sliding_window",
            f"{BASE} --kv-cache-dtype-skip-layers 0 sliding_window",
        ),
        (
            Change(values=(("speculative_config", {"method": "ngram", "num_speculative_tokens": 2}),)),
            """--speculative-config '{"method": "ngram", "num_speculative_tokens": 2}'""",
            f"""{BASE} --speculative-config '{{"method": "ngram", "num_speculative_tokens": 2}}'""",
        ),
    ],
)
def test_options(change: Change, words: str, same_as: str) -> None:
    before = launched(BASE)
    after = changed(before, change)
    expected = launched(same_as)
    assert told(change, before) == words
    assert {name: one.value for name, one in after.settings.items()} == {
        name: one.value for name, one in expected.settings.items()
    }
    assert not after.refusals


def test_another_release_reads_the_words_anew() -> None:
    before = launched(f"{BASE} --kv-cache-dtype-skip-layers 0", release="0.18.1")
    assert before.refusals
    after = changed(before, Change(release="0.19.1"))
    assert not after.refusals
    assert after.get("kv_cache_dtype_skip_layers") == ["0"]
    assert told(Change(release="0.19.1"), before) == "use vLLM 0.19.1"


def test_an_unknown_option_is_dropped_with_its_refusal() -> None:
    before = launched(f"{BASE} --bogus")
    assert [refusal.option for refusal in before.refusals] == ["--bogus"]
    assert not changed(before, Change(without=("--bogus",))).refusals


def test_environment_and_gpus() -> None:
    before = launched("VLLM_KV_CACHE_LAYOUT=HND VLLM_PP_LAYER_PARTITION=1,2 vllm serve Qwen/Qwen3-8B", gpu="h200:4")
    change = Change(unset=("VLLM_PP_LAYER_PARTITION",), environment=(("VLLM_MLA_DISABLE", "1"),), gpus=8)
    after = changed(before, change)
    assert after.environment == {"VLLM_KV_CACHE_LAYOUT": "HND", "VLLM_MLA_DISABLE": "1"}
    assert after.hardware.count == 8
    assert told(change, before) == "VLLM_MLA_DISABLE=1 with drop VLLM_PP_LAYER_PARTITION with 8 GPUs"


def test_two_changes_at_once() -> None:
    one = Change(values=(("max_model_len", 1), ("block_size", 16)), without=("seed",))
    other = Change(values=(("max_model_len", 2),), release="0.26.0")
    assert one.beside(other) == Change(
        values=(("max_model_len", 2), ("block_size", 16)), without=("seed",), release="0.26.0"
    )
