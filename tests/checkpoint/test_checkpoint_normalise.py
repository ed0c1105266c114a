"""What configs become: classes, conventions, quantisation, and a fuzz of everything."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvplan.checkpoint import load
from kvplan.checkpoint.normalise import ORIGINAL, Normalised, normalise
from kvplan.errors import InputError

GPT2 = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_layer": 6, "n_head": 12, "n_embd": 768}


def read(config: dict[str, Any], **options: Any) -> Normalised:
    return normalise(config, file="config.json", **options)


def test_both_names_of_a_field_are_readable() -> None:
    config = read(GPT2).config
    assert config["num_hidden_layers"] == config["n_layer"] == 6
    assert config["num_attention_heads"] == config["n_head"] == 12
    assert config["hidden_size"] == config["n_embd"] == 768
    assert config["max_position_embeddings"] == config["n_positions"] == 1024


def test_an_override_under_one_name_changes_both() -> None:
    config = read(GPT2, hf_overrides={"num_hidden_layers": 3}).config
    assert config["num_hidden_layers"] == config["n_layer"] == 3


def test_derived_fields_are_filled() -> None:
    jamba = {"model_type": "jamba", "num_hidden_layers": 16, "attn_layer_period": 8, "attn_layer_offset": 4}
    kinds = read(jamba).config["layers_block_type"]
    assert [i for i, kind in enumerate(kinds) if kind == "attention"] == [4, 12]
    gemma = load("google/gemma-2-2b")
    assert gemma.config["layer_types"][:2] == ["sliding_attention", "full_attention"]
    assert gemma.config["head_dim"] == 256


def test_layers_that_differ_are_listed() -> None:
    model = load("google/gemma-4-26B-A4B-it")
    text = model.text_config
    assert text["is_heterogeneous"]
    full = [i for i, kind in enumerate(text["layer_types"]) if kind == "full_attention"]
    assert sorted(map(int, text["per_layer_config"])) == full
    assert {text["per_layer_config"][str(i)]["head_dim"] for i in full} == {512}
    assert model.config["text_config"] is text


def test_types_with_a_foreign_class_keep_their_name() -> None:
    model = load("moonshotai/Kimi-K2-Instruct")
    assert model.model_type == model.config["model_type"] == "kimi_k2"
    assert model.normalised_by == "transformers"
    assert model.config["kv_lora_rank"] == 512


@pytest.mark.parametrize(
    ("name", "layers", "heads", "kv_heads"),
    [
        ("THUDM/chatglm3-6b", 28, 32, 2),
        ("internlm/internlm2-7b", 32, 32, 8),
        ("Qwen/Qwen-7B", 32, 32, None),
        ("baichuan-inc/Baichuan2-7B-Chat", 32, 32, None),
        ("tencent/Hunyuan-A13B-Instruct", 32, 32, 8),
        ("moonshotai/Kimi-K3", 93, 96, 96),
        ("nvidia/MiniMax-M3-NVFP4", 60, 64, 4),
        ("Qwen/Qwen3-ASR", 28, 16, 8),
        ("deepseek-ai/Janus-1.3B", 24, 16, 16),
        ("OpenGVLab/InternVL2-2B", 24, 16, 8),
    ],
)
def test_types_unknown_to_transformers(name: str, layers: int, heads: int, kv_heads: int | None) -> None:
    model = load(name)
    text = model.text_config
    assert model.normalised_by == "conventions"
    assert text["num_hidden_layers"] == layers
    assert text["num_attention_heads"] == heads
    names = ("n_head_kv", "num_kv_heads", "num_key_value_heads", "multi_query_group_num")
    assert next((text[n] for n in names if n in text), None) == kv_heads


def test_chatglm_has_three_names_for_its_length() -> None:
    config = load("THUDM/chatglm3-6b").config
    assert config["seq_length"] == config["max_position_embeddings"] == 8192


def test_rotary_parameters_of_old_configs_are_brought_up_to_date() -> None:
    config = read(
        {
            "model_type": "minicpm",
            "num_hidden_layers": 2,
            "rope_theta": 1e4,
            "rope_scaling": {"type": "su", "factor": 4.0},
            "max_position_embeddings": 64,
        }
    ).config
    assert config["rope_parameters"] == {
        "type": "su",
        "rope_type": "longrope",
        "factor": 4.0,
        "rope_theta": 1e4,
        "original_max_position_embeddings": 64,
    }


def test_fields_that_the_class_uses_up_are_kept_apart() -> None:
    config = load("deepseek-ai/DeepSeek-V4-Flash").config
    assert "compress_ratios" not in config
    assert config[ORIGINAL]["compress_ratios"][:3] == [0, 0, 4]


def test_a_class_that_reads_no_language_section_is_refused() -> None:
    wrong = {"model_type": "ministral3", "text_config": {"num_hidden_layers": 2}}
    with pytest.raises(InputError, match="does not read a section 'text_config'"):
        read(wrong)


def test_the_config_s_own_quantisation_wins() -> None:
    own = {"quant_method": "fp8"}
    beside = {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}}
    assert read({**GPT2, "quantization_config": own}, quant_file=beside).quantization == own
    found = read(GPT2, quant_file=beside)
    assert found.config["quantization_config"] == beside
    assert found.quantization == {**beside, "quant_method": "modelopt_fp4"}


@pytest.mark.parametrize(
    ("section", "method"),
    [
        ({"quantization": {"quant_algo": "FP8"}}, ""),  # without a producer vLLM takes it for no method
        ({"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8"}}, "modelopt"),
        ({"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "MIXED_PRECISION"}}, "modelopt_mixed"),
        ({"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "W4A8"}, "quant_method": "X"}, "x"),
        ({"quant_method": "compressed_tensors"}, "compressed-tensors"),
    ],
)
def test_quantisation_methods(section: dict[str, Any], method: str) -> None:
    found = read({**GPT2, "quantization_config": section}).quantization
    assert found is not None
    assert found["quant_method"] == method


def test_compression_config_and_the_language_section_count_too() -> None:
    assert read({**GPT2, "compression_config": {"quant_method": "sparse"}}).quantization == {"quant_method": "sparse"}
    nested = {
        "model_type": "llava",
        "text_config": {"model_type": "llama", "quantization_config": {"quant_method": "fp8"}},
    }
    assert read(nested).quantization == {"quant_method": "fp8"}
    assert read(GPT2).quantization is None


def test_overrides_that_cannot_be_set_are_told() -> None:
    with pytest.raises(InputError, match=r"^--hf-overrides: "):
        read({"model_type": "llama"}, hf_overrides={"per_layer_config": 3})


_NAMES = st.sampled_from(
    [
        "num_hidden_layers",
        "hidden_size",
        "num_attention_heads",
        "num_key_value_heads",
        "head_dim",
        "layer_types",
        "rope_scaling",
        "rope_parameters",
        "rope_theta",
        "sliding_window",
        "text_config",
        "vision_config",
        "llm_config",
        "quantization_config",
        "architectures",
        "torch_dtype",
        "dtype",
        "max_position_embeddings",
        "num_labels",
        "id2label",
        "per_layer_config",
        "attribute_map",
        "thinker_config",
        "language_config",
        "model_type",
        "seq_length",
        "linear_attn_config",
        "n_head",
        "_x",
        "to_dict",
        "vocab_size",
        "kv_lora_rank",
        "full_attention_interval",
    ]
)
_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 200)
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["llama", "yarn", "full_attention", "float16", "fp8", 10**12]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_NAMES | st.text(max_size=4), inner, max_size=4),
    max_leaves=8,
)
_TYPES = st.sampled_from(
    ["llama", "qwen2", "qwen3_next", "gemma3", "gemma4", "jamba", "gpt2", "falcon", "deepseek_v3", "glm_moe_dsa",
     "chatglm", "kimi_linear", "kimi_k3", "minimax_m3_vl", "step5_vl", "RefinedWeb", "deepseek_v41", "internvl_chat",
     "qwen2_vl", "qwen3_asr", "deepseek_vl_v2", "nemotron_h", "lfm2", "whisper", "t5", "hy_v4", "nobody", "qwen"]
)  # fmt: skip


@given(_TYPES, st.dictionaries(_NAMES, _VALUES, max_size=6), st.dictionaries(_NAMES, _VALUES, max_size=2))
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_anything_gives_json_or_one_line(kind: str, config: dict[str, Any], overrides: dict[str, Any]) -> None:
    try:
        found = normalise({"model_type": kind, **config}, file="config.json", hf_overrides=overrides)
    except InputError as error:
        assert "\n" not in str(error)  # noqa: PT017
        return
    json.dumps([found.config, found.text_config, found.quantization], allow_nan=False)
    assert isinstance(found.model_type, str)
