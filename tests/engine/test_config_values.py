"""Values of a config that vLLM cannot use, with vLLM's own words and at its own stage."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import pytest

from kvplan.checkpoint.load import STDIN, load
from kvplan.checkpoint.values import Checkpoint
from kvplan.engine.values import Stage
from kvplan.rules import run
from tests.asking import planned_with

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "num_hidden_layers": 2,
    "hidden_size": 256,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 512,
    "vocab_size": 128,
    "torch_dtype": "bfloat16",
    "max_position_embeddings": 2048,
}


def checkpoint(config: dict[str, Any]) -> Checkpoint:
    """The model of such a config.json."""
    return load(STDIN, stdin=StringIO(json.dumps(config)))


REFUSED = [
    ({"torch_dtype": "bf16"}, Stage.OPTIONS, "AttributeError", "module 'torch' has no attribute 'bf16'"),
    ({"num_key_value_heads": 3}, Stage.LAYERS, "AssertionError", "num_heads (4) is not divisible by num_kv_heads (3)"),
    ({"num_key_value_heads": 8}, Stage.LAYERS, "AssertionError", "num_heads (4) is not divisible by num_kv_heads (8)"),
    ({"hidden_act": "gelu"}, Stage.LAYERS, "ValueError", "Unsupported activation: gelu. Only silu is supported"),
    (
        {"intermediate_size": -5},
        Stage.LAYERS,
        "RuntimeError",
        "Trying to create tensor with negative dimension -10: [-10, 256]",
    ),
    (
        {"rope_scaling": {"rope_type": "magic", "factor": 8}},
        Stage.LAYERS,
        "ValueError",
        "Unknown RoPE scaling type magic",
    ),
    (
        {"rope_parameters": {"rope_type": "magic", "type": "linear", "factor": 2}},
        Stage.OPTIONS,
        "ValidationError",
        "Found conflicts between 'rope_type=magic' (modern field) and 'type=linear' (legacy field).",
    ),
    (
        {"quantization_config": {"quant_method": None}},
        Stage.OPTIONS,
        "AttributeError",
        "'NoneType' object has no attribute 'lower'",
    ),
    ({"quantization_config": {"quant_method": "quark"}}, Stage.OPTIONS, "ValidationError", "The export key should be"),
    (
        {"quantization_config": {"quant_method": "quark", "export": {}}},
        Stage.OPTIONS,
        "TypeError",
        "object of type 'NoneType' has no len()",
    ),
    ({"quantization_config": {"quant_method": 5}}, Stage.OPTIONS, "AttributeError", "'int' object has no attribute"),
    (
        {"quantization_config": {"quant_method": "quark", "export": {"kv_cache_group": ["*k_proj"]}}},
        Stage.OPTIONS,
        "AttributeError",
        "'NoneType' object has no attribute 'keys'",
    ),
    (
        {
            "quantization_config": {
                "quant_method": "quark",
                "export": {"kv_cache_group": ["*k_proj"]},
                "layer_quant_config": {"*v_proj": {}},
            }
        },
        Stage.OPTIONS,
        "ValidationError",
        "The Quark quantized model has the kv_cache_group parameter setting, but no kv_cache",
    ),
    (
        {"quantization_config": {"quant_method": "awq", "bits": 4}},
        Stage.OPTIONS,
        "ValidationError",
        "Cannot find any of ['q_group_size', 'group_size'] in the model's quantization config.",
    ),
    (
        {"quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 128}},
        Stage.OPTIONS,
        "ValidationError",
        "Cannot find any of ['desc_act'] in the model's quantization config.",
    ),
    (
        {"quantization_config": {"quant_method": "fp8", "activation_scheme": "magic"}},
        Stage.OPTIONS,
        "ValidationError",
        "Unsupported activation scheme magic",
    ),
    (
        {
            "quantization_config": {
                "quant_method": "fp8",
                "activation_scheme": "static",
                "weight_block_size": [128, 128],
            }
        },
        Stage.OPTIONS,
        "ValidationError",
        "The block-wise quantization only supports dynamic activation scheme",
    ),
    (
        {"rope_scaling": {"rope_type": None, "factor": 8}},
        Stage.LAYERS,
        "ValueError",
        "Unknown RoPE scaling type None",
    ),
    (
        {"partial_rotary_factor": 2.0},
        Stage.LAYERS,
        "ValueError",
        "partial_rotary_factor=2.0 must be between 0.0 and 1.0",
    ),
    ({"rope_theta": "1e4"}, Stage.LAYERS, "TypeError", "unsupported operand type(s) for ** or pow()"),
    ({"max_position_embeddings": 0}, Stage.OPTIONS, "ValidationError", "max_model_len must be a positive integer"),
]


@pytest.mark.parametrize(("change", "stage", "kind", "message"), REFUSED)
def test_vllm_refuses_the_value(change: dict[str, Any], stage: Stage, kind: str, message: str) -> None:
    plan = planned_with(checkpoint({**LLAMA, **change}), ())
    assert plan.error is not None
    assert (plan.error.stage, plan.error.type) == (stage, kind)
    assert plan.error.message.startswith(message)
    assert any(finding.severity == "error" for finding in run(plan))


@pytest.mark.parametrize(
    ("change", "release"),
    [
        ({}, "0.33.0"),
        ({"torch_dtype": "half"}, "0.33.0"),
        ({"quantization_config": {}}, "0.33.0"),
        ({"rope_parameters": {"rope_type": "proportional", "rope_theta": 1e4}}, "0.19.1"),
        ({"rope_parameters": {"rope_type": "xdrope", "rope_theta": 1e4}}, "0.29.0"),
    ],
)
def test_vllm_takes_the_value(change: dict[str, Any], release: str) -> None:
    assert planned_with(checkpoint({**LLAMA, **change}), (), release=release).ok


@pytest.mark.parametrize(("rope", "release"), [("proportional", "0.18.1"), ("xdrope", "0.30.0")])
def test_ropes_come_and_go(rope: str, release: str) -> None:
    change = {"rope_parameters": {"rope_type": rope, "rope_theta": 1e4}}
    plan = planned_with(checkpoint({**LLAMA, **change}), (), release=release)
    assert plan.error is not None
    assert plan.error.message == f"Unknown RoPE scaling type {rope}"


def test_the_rope_comes_before_the_heads_and_the_dtype_before_both() -> None:
    change = {"num_key_value_heads": 3, "rope_scaling": {"rope_type": "magic"}}
    found = [error.message for error in planned_with(checkpoint({**LLAMA, **change}), ()).errors]
    assert found[0].startswith("Unknown RoPE")
    found = [error.message for error in planned_with(checkpoint({**LLAMA, **change, "torch_dtype": "fp16"}), ()).errors]
    assert found[0] == "module 'torch' has no attribute 'fp16'"
