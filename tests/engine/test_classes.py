"""Classes that build their layers under other names or heads, or for one backend only."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvplan.engine import Plan
from kvplan.engine.values import Stage
from tests import asking

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 1024,
    "intermediate_size": 2816,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "head_dim": 64,
    "num_hidden_layers": 4,
    "vocab_size": 32000,
    "max_position_embeddings": 8192,
    "dtype": "bfloat16",
}


def planned(folder: Path, config: dict[str, Any], *flags: str, release: str = "0.33.0") -> Plan:
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return asking.planned(["vllm", "serve", str(folder), *flags], release=release, memory=2**34)


def test_step3_has_one_kv_head_whatever_its_config_says(tmp_path: Path) -> None:
    # 16 tokens * 1 head * 64 elements * (key and value) * 2 bytes
    found = planned(tmp_path, {**LLAMA, "architectures": ["Step3TextForCausalLM"]})
    assert {layer.page_bytes for layer in found.layers} == {16 * 1 * 64 * 2 * 2}
    assert found.layers[0].name == ".layers.0.self_attn.attn"


def test_cosmos3_edge_counts_attention_and_feed_forward_layers(tmp_path: Path) -> None:
    text = {**LLAMA, "model_type": "cosmos3_edge_text", "head_dim": 128}
    config = {
        "architectures": ["Cosmos3EdgeForConditionalGeneration"],
        "model_type": "cosmos3_edge",
        "text_config": text,
    }
    found = planned(tmp_path, config, "-pp", "2")
    assert [layer.index for layer in found.layers] == [0, 2, 4, 6]
    assert [layer.rank for layer in found.layers] == [0, 0, 1, 1]  # eight layers are split, not four
    assert found.layers[1].name == "language_model.model.layers.2.mixer.attn"


@pytest.mark.parametrize(
    ("architecture", "fields", "backend", "exception"),
    [
        ("Step1ForCausalLM", {}, "TRITON_ATTN", "ValueError"),
        (
            "Rnj1ForCausalLM",
            {"layer_types": ["chunked_attention", "full_attention"] * 2, "query_pre_attn_scalar": 64},
            "TRITON_ATTN",
            "TypeError",
        ),
        ("FlintForCausalLM", {"layer_types": ["full_attention"] * 4}, "FLASHINFER", "AssertionError"),
    ],
)
def test_classes_that_only_one_backend_serves(
    tmp_path: Path, architecture: str, fields: dict[str, Any], backend: str, exception: str
) -> None:
    config = {**LLAMA, **fields, "architectures": [architecture]}
    error = planned(tmp_path, config).error
    assert error is not None
    assert (error.stage, error.type) == (Stage.BACKEND, exception)
    assert planned(tmp_path, config, "--attention-backend", backend).error is None


@pytest.mark.parametrize(
    ("architecture", "name"),
    [
        ("SarvamMoEForCausalLM", "model.layers.0.attention.attn"),
        ("SolarForCausalLM", "model.layers.0.self_attn.attn"),
    ],
)
def test_names_of_layers(tmp_path: Path, architecture: str, name: str) -> None:
    assert planned(tmp_path, {**LLAMA, "architectures": [architecture]}).layers[0].name == name


def test_encoder_decoders_without_positions_are_not_for_the_transformers_backend(tmp_path: Path) -> None:
    config = {
        "architectures": ["PegasusForConditionalGeneration"],
        "model_type": "pegasus",
        "d_model": 512,
        "decoder_layers": 2,
        "encoder_layers": 2,
        "decoder_attention_heads": 8,
        "encoder_attention_heads": 8,
    }
    error = planned(tmp_path, config).error
    assert error is not None
    assert (error.stage, error.type) == (Stage.LAYERS, "ValueError")
    assert error.message.startswith("Argument position_ids not found")
