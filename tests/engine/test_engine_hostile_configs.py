"""Configs whose fields are of the wrong kind: a refusal that names the field, or vLLM's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvplan.checkpoint import catalog
from tests.asking import kvplan

_GEMMA = {"architectures": ["Gemma4ForConditionalGeneration"], "model_type": "evil_type"}
_DELTA = (
    "linear_conv_kernel_dim",
    "linear_num_key_heads",
    "linear_num_value_heads",
    "linear_key_head_dim",
    "linear_value_head_dim",
)
_LIST = ["sliding_attention"] * 30


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({**_GEMMA, "text_config": {"num_hidden_layers": 30, "layer_types": [*_LIST[:29], {}]}}, "layer_types[29]"),
        (
            {
                "architectures": ["KimiK3ForConditionalGeneration"],
                "model_type": "kimi_k3",
                "text_config": {"linear_attn_config": {"kda_layers": [1, ["full_attention"]]}},
            },
            "kda_layers[1]",
        ),
        (
            {
                "architectures": ["Qwen3_5MoeForConditionalGeneration"],
                "model_type": "evil_type",
                "text_config": {
                    "num_hidden_layers": 2,
                    "hidden_size": 64,
                    "num_attention_heads": 2,
                    "layer_types": ["linear_attention", {"a": 1}],
                    **dict.fromkeys(_DELTA, 4),
                },
            },
            "layer_types[1]",
        ),
        ({"model_type": "mistral3", "text_config": {"rope_parameters": {"factor": float("inf")}}}, "factor"),
        ({"rope_parameters": {"factor": "::error::x"}, "model_type": "ministral3"}, "factor"),
        (
            {
                "architectures": ["InternVLChatModel"],
                "llm_config": {
                    "model_type": "phi3",
                    "num_hidden_layers": 32,
                    "original_max_position_embeddings": "auto",
                    "rope_scaling": {"type": "su"},
                },
                "model_type": "internvl_chat",
            },
            "original_max_position_embeddings",
        ),
        ({"model_type": "llama", "max_position_embeddings": float("nan")}, "max_position_embeddings"),
    ],
)
def test_a_field_of_the_wrong_kind_is_named(config: dict[str, Any], field: str, tmp_path: Path) -> None:
    result = _planned(config, tmp_path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert field in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "config",
    [
        {
            "compression_config": {
                "config_groups": {"group_0": {"targets": 2147483648, "weights": {}}},
                "quant_method": "compressed-tensors",
            },
            "model_type": "llama",
        },
        {"rope_parameters": {"rope_type": {}}, "model_type": "exaone4"},
    ],
)
def test_what_the_size_of_the_cache_does_not_depend_on_is_passed_over(config: dict[str, Any], tmp_path: Path) -> None:
    assert _planned(config, tmp_path).exit_code in (0, 1)


def test_heads_of_no_size_are_refused_as_vllm_refuses_them(tmp_path: Path) -> None:
    # 4,096 // 1,000,000 heads is a head size of 0, and a state is divided by the bytes of a token.
    config = {"num_attention_heads": 1000000, "model_type": "bamba"}
    result = _planned(config, tmp_path, "--vllm-version", "0.17.1")
    assert result.exit_code == 1
    assert "ZeroDivisionError: integer division or modulo by zero" in result.stdout


def test_a_dtype_that_is_none_is_refused_as_vllm_refuses_it(tmp_path: Path) -> None:
    entry = catalog.find("nvidia/Nemotron-3-Nano")
    assert entry is not None
    config = {**catalog.raw(entry)[0].data, "mamba_ssm_cache_dtype": "llama"}
    result = _planned(config, tmp_path)
    assert result.exit_code == 1
    assert "KeyError: 'llama'" in result.stdout


def _planned(config: dict[str, Any], folder: Path, *words: str) -> Any:
    (folder / "config.json").write_text(json.dumps(config))
    return kvplan("plan", str(folder / "config.json"), "--gpu", "h200", "--offline", "--isolated", *words)
