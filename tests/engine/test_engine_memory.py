"""The memory for the cache where nobody measured it, worked by hand, and what is said about it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import kvplan
from tests import asking

GIB = 1 << 30
H100 = 81_559 * (1 << 20)
"""Bytes of an H100's memory, from nvidia-smi's MiB."""


def _estimated(command: str, **more: Any) -> kvplan.Plan:
    return kvplan.plan(f"vllm serve {command}", gpu="h100", **more)


def test_budget_less_weights() -> None:
    # 0.33.0 may use 0.92 of the GPU: 81,559 MiB x 0.92 = 78,679,145,185 B; less 15 GiB = 16,106,127,360 B.
    # A block of 16 tokens takes 32 layers x 65,536 B = 2,097,152 B, so 29,837 blocks, 477,392 tokens.
    capacity = _estimated("meta-llama/Llama-3.1-8B", weights="15GiB").capacity
    assert capacity is not None
    assert capacity.available_bytes == 62_573_017_825
    assert (capacity.num_blocks, capacity.tokens) == (29_837, 477_392)
    assert capacity.log_lines == ()
    assert capacity.estimate is not None
    assert capacity.estimate.gpu_bytes == H100


def test_utilisation_of_the_release() -> None:
    # Through 0.19.1 the default share is 0.9.
    capacity = _estimated("meta-llama/Llama-3.1-8B", weights=15 * GIB, vllm_version="0.19.1").capacity
    assert capacity is not None
    assert capacity.available_bytes == int(H100 * 0.9) - 15 * GIB


@pytest.mark.parametrize(
    ("command", "each"),
    [
        ("meta-llama/Llama-3.1-8B -tp 2", 8 * GIB),
        ("meta-llama/Llama-3.1-8B -tp 2 -pp 2", 4 * GIB),
        ("Qwen/Qwen3-30B-A3B -tp 2 --data-parallel-size 2", 8 * GIB),
        ("Qwen/Qwen3-30B-A3B -tp 2 --data-parallel-size 2 --enable-expert-parallel", 4 * GIB),
        ("meta-llama/Llama-3.1-8B --quantization fp8", 8 * GIB),
        ("meta-llama/Llama-3.1-8B --quantization nvfp4_per_token", 4 * GIB),
        ("meta-llama/Llama-3.1-8B --dtype float32", 32 * GIB),
        ("meta-llama/Llama-3.1-8B --cpu-offload-gb 6", 10 * GIB),
        ("meta-llama/Llama-3.1-8B --cpu-offload-gb 60", 0),
        # 61 layers and one MTP layer in the files, which is loaded only to draft with it.
        ("deepseek-ai/DeepSeek-V3 -tp 8 --gpu-memory-utilization 0.9", int(16 * GIB * 61 / 62 / 8)),
    ],
)
def test_weights_of_one_gpu(command: str, each: int) -> None:
    capacity = _estimated(command, weights=16 * GIB).capacity
    assert capacity is not None
    assert capacity.estimate is not None
    assert capacity.estimate.weight_bytes == each


def test_weights_larger_than_the_budget_are_refused() -> None:
    planned = _estimated("meta-llama/Llama-3.1-8B", weights="74GiB")
    assert planned.error is not None
    assert (planned.error.code, planned.error.type) == ("no_memory", "ValueError")
    larger = _estimated("meta-llama/Llama-3.1-8B", weights="80GiB")
    assert larger.error is not None
    assert (larger.error.code, larger.error.type) == ("no_memory", "OutOfMemoryError")
    (finding,) = kvplan.check("vllm serve meta-llama/Llama-3.1-8B", gpu="h100", weights="74GiB").errors
    assert finding.message == (
        "the weights take 74.00 GiB of each GPU, and vLLM may use 73.28 GiB of h100 (compute capability 9.0)"
    )


def test_without_weights_only_what_exceeds_the_gpu_is_refused() -> None:
    # 80 layers x 8 KV heads x 128 x 2 (K and V) x 2 B = 327,680 B a token; 131,072 tokens need 40 GiB, and an L4 has
    # 23,034 MiB x 0.92 = 20.69 GiB in all, of which 0.29 and later keep one block back.
    refused = kvplan.check("vllm serve meta-llama/Llama-3.3-70B-Instruct -tp 1", gpu="l4")
    (finding,) = refused.errors
    assert finding.rule == "KV602"
    assert "l4 (compute capability 8.9) has at most 20.69 GiB for the cache even without weights" in finding.message
    assert refused.plan.capacity is not None
    assert refused.plan.capacity.num_blocks is None
    accepted = kvplan.check("vllm serve meta-llama/Llama-3.3-70B-Instruct --max-model-len 8192", gpu="l4")
    assert accepted.ok
    assert {finding.rule for finding in accepted.findings} == {"KV603"}


def test_a_figure_of_the_operator_wins() -> None:
    capacity = _estimated("meta-llama/Llama-3.1-8B", weights="15GiB", available_kv_memory="10GiB").capacity
    assert capacity is not None
    assert (capacity.available_bytes, capacity.estimate) == (10 * GIB, None)


def test_an_assumed_gpu_is_no_ground_for_an_estimate() -> None:
    capacity = kvplan.plan("vllm serve meta-llama/Llama-3.1-8B", weights="15GiB").capacity
    assert capacity is not None
    assert (capacity.available_bytes, capacity.estimate) == (None, None)


def test_weights_in_a_directory_are_found_and_told(tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "vocab_size": 128256,
        "max_position_embeddings": 8192,
        "torch_dtype": "bfloat16",
    }
    (model / "config.json").write_text(json.dumps(config), "utf-8")
    index = {"metadata": {"total_size": 16_060_522_496}, "weight_map": {}}
    (model / "model.safetensors.index.json").write_text(json.dumps(index), "utf-8")
    command = ["plan", str(model), "--gpu", "h100", "--isolated", "--offline"]
    capacity = asking.told(*command)["capacity"]
    assert capacity["estimated"] is True
    assert capacity["estimate"] == {
        "gpu_bytes": H100,
        "budget_bytes": 78_679_145_185,
        "weight_bytes": 16_060_522_496,
    }
    text = asking.kvplan(*command, width=200).stdout
    assert "Capacity (per GPU, at most)" in text
    assert "58.32 GiB (62,618,622,689 B), an estimate" in text
