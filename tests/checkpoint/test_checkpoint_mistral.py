"""Mistral's own format: which file is read, and what its fields become.

Pages and classes are those that vLLM 0.33.0 (and 0.16.0 to 0.30.0, where they have the class) made of the same files.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import kvplan
from kvplan.checkpoint import load
from kvplan.errors import InputError

DENSE: dict[str, Any] = {
    "dim": 4096,
    "n_layers": 32,
    "head_dim": 128,
    "hidden_dim": 14336,
    "n_heads": 32,
    "n_kv_heads": 8,
    "norm_eps": 1e-5,
    "vocab_size": 32768,
    "rope_theta": 1_000_000.0,
}
WINDOWED = {**DENSE, "n_layers": 36, "sliding_window": [None, 32768, 32768, 32768], "max_position_embeddings": 131_072}
LATENT = {
    "dim": 7168,
    "n_layers": 61,
    "head_dim": 192,
    "hidden_dim": 16384,
    "n_heads": 128,
    "n_kv_heads": 128,
    "norm_eps": 1e-6,
    "vocab_size": 131_072,
    "rope_theta": 10_000.0,
    "max_position_embeddings": 294_912,
    "llama_4_scaling": {"beta": 0.1, "original_max_position_embeddings": 8192},
    "q_lora_rank": 1536,
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128,
    "kv_lora_rank": 512,
    "v_head_dim": 128,
    "yarn": {"original_max_position_embeddings": 8192, "factor": 36.0, "apply_scale": False, "beta": 32, "alpha": 1},
    "moe": {"first_k_dense_replace": 3, "num_experts": 128, "num_experts_per_tok": 4, "num_shared_experts": 1},
}
DENSE_LATENT = {
    **{name: value for name, value in LATENT.items() if name not in ("moe", "yarn")},
    "n_layers": 36,
    "kv_lora_rank": 256,
    "qk_nope_head_dim": 64,
}
VISION = {
    **DENSE,
    "n_layers": 40,
    "vision_encoder": {
        "hidden_size": 1024,
        "num_channels": 3,
        "image_size": 1540,
        "patch_size": 14,
        "rope_theta": 10_000.0,
        "intermediate_size": 4096,
        "num_hidden_layers": 24,
        "num_attention_heads": 16,
        "image_token_id": 10,
    },
}
SPEECH = {
    **DENSE,
    "n_layers": 30,
    "max_position_embeddings": 32_768,
    "multimodal": {
        "whisper_model_args": {
            "encoder_args": {
                "audio_encoding_args": {"sampling_rate": 16000, "num_mel_bins": 128},
                "dim": 1280,
                "n_layers": 32,
                "head_dim": 64,
                "hidden_dim": 5120,
                "n_heads": 20,
                "vocab_size": 51866,
                "max_source_positions": 1500,
            },
            "downsample_args": {"downsample_factor": 4},
        }
    },
}


def _model(folder: Path, params: dict[str, Any], **files: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "params.json").write_text(json.dumps(params), "utf-8")
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text, "utf-8")
    return folder


@pytest.mark.parametrize(
    ("params", "architecture", "first", "spec", "pages", "groups"),
    [
        # 16 tokens x 8 KV heads x (128 + 128) x 2 B = 65,536 B
        (DENSE, "MistralForCausalLM", "model.layers.0.self_attn.attn", "FullAttentionSpec", {65_536}, 1),
        (WINDOWED, "MistralForCausalLM", "model.layers.0.self_attn.attn", "FullAttentionSpec", {65_536}, 4),
        # 16 tokens x (512 + 64) x 2 B = 18,432 B; with rank 256: 16 x 320 x 2 B = 10,240 B
        (LATENT, "MistralLarge3ForCausalLM", "model.layers.0.self_attn.attn", "MLAAttentionSpec", {18_432}, 1),
        (DENSE_LATENT, "MistralLarge3ForCausalLM", "model.layers.0.self_attn.attn", "MLAAttentionSpec", {10_240}, 1),
        (
            VISION,
            "PixtralForConditionalGeneration",
            "language_model.model.layers.0.self_attn.attn",
            "FullAttentionSpec",
            {65_536},
            1,
        ),
        (
            SPEECH,
            "VoxtralForConditionalGeneration",
            "language_model.model.layers.0.self_attn.attn",
            "FullAttentionSpec",
            {65_536},
            1,
        ),
    ],
)
def test_layers_are_those_vllm_makes(
    tmp_path: Path, params: dict[str, Any], architecture: str, first: str, spec: str, pages: set[int], groups: int
) -> None:
    folder = _model(tmp_path / "model", params)
    planned = kvplan.plan(["vllm", "serve", str(folder)], gpu="h100")
    assert planned.ok
    assert planned.checkpoint.architectures == (architecture,)
    assert len(planned.layers) == params["n_layers"]
    assert (planned.layers[0].name, planned.layers[0].spec) == (first, spec)
    assert {layer.page_bytes for layer in planned.layers} == pages
    assert len(planned.groups) == groups


def test_a_list_of_windows_repeats_over_the_layers(tmp_path: Path) -> None:
    text = load(str(_model(tmp_path / "model", WINDOWED))).text_config
    assert text["sliding_window"] == 32768
    assert text["layer_types"] == (["full_attention"] + ["sliding_attention"] * 3) * 9


def test_quantisation(tmp_path: Path) -> None:
    fp8 = {**DENSE, "quantization": {"qformat_weight": "fp8_e4m3", "qscheme_act": "TENSOR"}}
    found = load(str(_model(tmp_path / "fp8", fp8))).quantization
    assert found is not None
    assert (found["quant_method"], found["activation_scheme"]) == ("fp8", "static")
    packed = {**DENSE, "quantization": {"quant_method": "Compressed_Tensors", "config_groups": {}}}
    found = load(str(_model(tmp_path / "packed", packed))).quantization
    assert found is not None
    assert found["quant_method"] == "compressed-tensors"


HF = json.dumps(
    {
        "architectures": ["MistralForCausalLM"],
        "model_type": "mistral",
        "hidden_size": 4096,
        "num_hidden_layers": 2,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "max_position_embeddings": 4096,
        "extra": 7,
    }
)


@pytest.mark.parametrize(
    ("weights", "config_format", "layers"),
    [
        ("", None, 2),
        ("consolidated-00001-of-00002.safetensors", None, 32),
        ("consolidated.safetensors", "auto", 32),
        ("consolidated.safetensors", "hf", 2),
        ("", "mistral", 32),
    ],
)
def test_which_of_two_files_is_read(tmp_path: Path, weights: str, config_format: str | None, layers: int) -> None:
    folder = _model(tmp_path / "model", DENSE, config_json=HF)
    if weights:
        (folder / weights).write_bytes(b"")
    found = load(str(folder), config_format=config_format)
    assert found.text_config["num_hidden_layers"] == layers
    # What params.json lacks comes from the config.json beside it.
    assert found.text_config["max_position_embeddings"] == 4096
    assert found.text_config["extra"] == 7


def test_the_launch_decides_the_format(tmp_path: Path) -> None:
    folder = _model(tmp_path / "model", DENSE, config_json=HF)
    assert len(kvplan.plan(["vllm", "serve", str(folder)], gpu="h100").layers) == 2
    planned = kvplan.plan(["vllm", "serve", str(folder), "--config-format", "mistral"], gpu="h100")
    assert len(planned.layers) == 32


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"quantization": {"qformat_weight": "int3"}}, "field 'quantization' is {'qformat_weight': 'int3'}"),
        ({"sliding_window": [1, 2]}, "field 'sliding_window' is [1, 2]"),
        ({"sliding_window": "wide"}, "field 'sliding_window' is 'wide'"),
        ({"moe": 8}, "field 'moe' is 8: must be an object"),
        ({"moe": {"num_experts": 8}}, "vLLM needs 'num_local_experts': put the model's config.json beside it"),
        ({"model_type": "mamba"}, "vLLM needs 'use_conv_bias'"),
        ({"n_layers": "many"}, "field 'num_hidden_layers' is 'many'"),
        (
            {"moe": {"num_shared_experts": 1}, "qk_nope_head_dim": 128},
            "field 'llama_4_scaling' is missing",
        ),
        (
            {
                "vision_encoder": {"hidden_size": 8},
                "multimodal": {"whisper_model_args": {"encoder_args": {"dim": 8}}},
            },
            "has a vision and an audio encoder",
        ),
        ({"multimodal": {"whisper_model_args": {"encoder_args": [1]}}}, "encoder_args' must be an object"),
    ],
)
def test_what_cannot_be_used_is_named(tmp_path: Path, changed: dict[str, Any], says: str) -> None:
    folder = _model(tmp_path / "model", {**DENSE, **changed})
    with pytest.raises(InputError) as raised:
        load(str(folder))
    assert says in str(raised.value)
    assert "params.json" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_format_without_its_file_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text(HF, "utf-8")
    error = kvplan.plan(["vllm", "serve", str(folder), "--config-format", "mistral"], gpu="h100").error
    assert error is not None
    assert error.type == "ValidationError"
    assert error.message.startswith("Failed to load mistral 'params.json' config for model")
    (folder / "config.json").unlink()
    with pytest.raises(InputError, match=r"the directory has no params\.json"):
        load(str(folder), config_format="mistral")


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    folder = _model(tmp_path / "model", DENSE, config_json=HF)
    error = kvplan.plan(["vllm", "serve", str(folder), "--config-format", "abc"], gpu="h100").error
    assert error is not None
    assert error.message == "Unknown config format `abc`."
