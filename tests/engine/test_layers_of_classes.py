"""What model classes take for themselves: heads, directions, stages, backends by kind; worked launches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvplan.engine.values import Plan
from tests.asking import planned

QWEN2, MIXTURE = "Qwen/Qwen2-0.5B", "Qwen/Qwen3-30B-A3B"


def overridden(model: str, **fields: Any) -> str:
    return f"vllm serve {model} --hf-overrides '{json.dumps(fields)}'"


def refusal(plan: Plan) -> tuple[str, str, str]:
    assert plan.error is not None
    return plan.error.stage, plan.error.type, plan.error.message


@pytest.mark.parametrize(
    ("kinds", "window", "full"),
    [
        ({"full_attention": "TRITON_ATTN"}, "FLASH_ATTN", "TRITON_ATTN"),
        ({"sliding_window": "triton_attn"}, "TRITON_ATTN", "FLASH_ATTN"),
        ({"mla_attention": "TRITON_MLA"}, "FLASH_ATTN", "FLASH_ATTN"),
    ],
)
def test_a_backend_for_one_kind_of_cache(kinds: dict[str, str], window: str, full: str) -> None:
    config = json.dumps({"backend_per_kind": kinds})
    plan = planned(f"vllm serve openai/gpt-oss-20b --attention-config '{config}'", gpu="h100")
    assert [layer.backend for layer in plan.layers[:2]] == [window, full]


def test_a_backend_for_one_kind_that_does_not_suit() -> None:
    config = json.dumps({"backend_per_kind": {"sliding_window": "FLEX_ATTENTION"}})
    plan = planned(f"vllm serve openai/gpt-oss-20b --attention-config '{config}' --kv-cache-dtype fp8", gpu="h100")
    assert refusal(plan)[:2] == ("backend", "ValueError")
    assert "AttentionBackendEnum.FLEX_ATTENTION is not valid" in refusal(plan)[2]


def test_rocm_attention_runs_where_it_is_asked_for() -> None:
    plan = planned("vllm serve Qwen/Qwen3-8B --attention-backend ROCM_ATTN", gpu="h100")
    assert plan.error is None
    assert {layer.backend for layer in plan.layers} == {"ROCM_ATTN"}
    unknown = planned("vllm serve Qwen/Qwen3-8B --attention-backend TORCH_SDPA", gpu="h100")
    assert refusal(unknown)[2].startswith("Backend TORCH_SDPA must be registered before use.")


@pytest.mark.parametrize("model", ["mistralai/Mistral-7B-v0.1", "microsoft/phi-4"])
def test_classes_built_of_llama_layers_read_is_causal(model: str) -> None:
    plan = planned(overridden(model, is_causal=False))
    assert plan.layers == ()
    assert plan.capacity is not None
    assert plan.capacity.num_blocks == 1


def test_qwen2_shares_the_width_among_its_heads() -> None:
    plan = planned(overridden(QWEN2, head_dim=32))
    assert {layer.head_size for layer in plan.layers} == {896 // 14}


@pytest.mark.parametrize(
    ("dense", "stage"),
    [(range(24), 0), (range(24, 48), 1)],
)
def test_a_stage_without_experts_is_refused(dense: range, stage: int) -> None:
    plan = planned(overridden(MIXTURE, mlp_only_layers=list(dense)) + " -pp 2")
    assert refusal(plan) == ("layers", "RuntimeError", "No Qwen3MoE layer found in the model.layers.")
    assert {layer.rank for layer in plan.layers} == set(range(stage))


def test_an_indexer_without_mla() -> None:
    command, environment = "vllm serve deepseek-ai/DeepSeek-V3.2 -tp 8", {"VLLM_MLA_DISABLE": "1"}
    refused = planned(command, release="0.25.1", environment=environment)
    assert refusal(refused)[1] == "AssertionError"
    kept = planned(command, release="0.33.0", environment=environment)
    assert {layer.layer_class for layer in kept.layers} == {"DeepseekV32IndexerCache", "DeepseekV32Attention"}


def test_index_keys_of_minimax_m3_do_not_follow_the_model() -> None:
    plan = planned("vllm serve nvidia/MiniMax-M3-NVFP4 -tp 8 --dtype half")
    keys = {layer.storage_dtype for layer in plan.layers if layer.name.endswith("index_cache")}
    assert keys == {"bfloat16"}


def test_rope_sections_that_do_not_fit() -> None:
    rope = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [11, 11, 10]}
    assert refusal(planned(overridden("Qwen/Qwen3-8B", rope_parameters=rope))) == ("layers", "AssertionError", "")
    fits = planned(overridden("Qwen/Qwen3-8B", rope_parameters={**rope, "mrope_section": [16, 24, 24]}))
    assert fits.error is None


def test_two_names_for_the_dtype_of_index_keys() -> None:
    config = json.dumps({"use_fp4_indexer_cache": True, "indexer_kv_dtype": "fp8"})
    command = f"vllm serve deepseek-ai/DeepSeek-V3.2 -tp 8 --attention-config '{config}'"
    assert "conflicts with indexer_kv_dtype='fp8'" in refusal(planned(command, release="0.28.0"))[2]


@pytest.mark.parametrize(
    ("release", "exception", "words"),
    [
        ("0.25.1", "AttributeError", "object has no attribute 'pooling'"),
        ("0.33.0", "ValidationError", "This bidirectional model requires a 'pooling' field"),
    ],
)
def test_a_bidirectional_llama_says_how_it_pools(release: str, exception: str, words: str) -> None:
    command = overridden("meta-llama/Llama-3.1-8B", architectures=["LlamaBidirectionalModel"])
    _, raised, message = refusal(planned(command, release=release))
    assert raised == exception
    assert message.startswith(words)


def test_stages_that_support_other_layouts() -> None:
    plan = planned(
        "vllm serve Qwen/Qwen3.5-4B -tp 2 -pp 2", gpu="b200", environment={"VLLM_PP_LAYER_PARTITION": "3,29"}
    )
    assert refusal(plan)[1] == "AssertionError"
    assert refusal(plan)[2].startswith("Workers disagree on supported KV cache layouts: [[")


def test_groups_of_a_norm_that_do_not_divide_over_ranks(tmp_path: Path) -> None:
    config = {
        "architectures": ["BailingMoeV2_5ForCausalLM"],
        "model_type": "bailing_hybrid",
        "use_bias": False,
        "group_norm_size": 4,
        "hidden_size": 2048,
        "num_attention_heads": 16,
        "num_key_value_heads": 16,
        "num_hidden_layers": 6,
        "layer_group_size": 3,
        "kv_lora_rank": 512,
        "qk_rope_head_dim": 64,
        "qk_nope_head_dim": 128,
        "v_head_dim": 128,
        "head_dim": 128,
        "max_position_embeddings": 8192,
        "vocab_size": 1000,
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    plan = planned(f"vllm serve {tmp_path} -tp 8 --trust-remote-code", release="0.22.1")
    assert refusal(plan) == ("layers", "AssertionError", "tp_size must be <= group_norm_size for local rms norm")


@pytest.mark.parametrize(("release", "words"), [("0.20.2", "rope_parameters should have"), ("0.21.0", None)])
def test_rope_sets_with_entries_for_all_layers(release: str, words: str | None) -> None:
    """Laguna-XS.2 has `original_max_position_embeddings` beside the sets of its two layer types, Laguna-S has not."""
    error = planned("vllm serve poolside/Laguna-XS.2-FP8", release=release).error
    assert (error is None) if words is None else (error is not None and error.message.startswith(words))


def test_ropes_are_judged_before_objects_override_them() -> None:
    """Qwen2.5-VL says type mrope; an override merged into it makes two types of it, and vLLM no longer looks."""
    rope = {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 131072}
    plan = planned(overridden("Qwen/Qwen2.5-VL-7B-Instruct", text_config={"rope_scaling": rope}), release="0.33.0")
    assert plan.error is None


@pytest.mark.parametrize(
    ("flags", "release", "gpu", "asserts"),
    [
        ("-tp 4 --max-num-batched-tokens 127", "0.33.0", "b200:4", True),
        ("-tp 4 --max-num-batched-tokens 128", "0.33.0", "b200:4", False),
        ("-tp 4 --max-num-batched-tokens 127", "0.28.0", "b200:4", False),
        ("-tp 4 --max-num-batched-tokens 127", "0.33.0", "h200:4", False),
        ("--max-num-batched-tokens 127", "0.33.0", "b200", False),
    ],
)
def test_sums_over_ranks_take_128_tokens(flags: str, release: str, gpu: str, asserts: bool) -> None:
    plan = planned(f"vllm serve moonshotai/Kimi-K3 {flags} --trust-remote-code", release=release, gpu=gpu)
    found = plan.error is not None and plan.error.type == "AssertionError"
    assert found is asserts


def test_quantisation_is_judged_before_the_engine_config_reads_states(tmp_path: Path) -> None:
    config: dict[str, Any] = {
        "architectures": ["Lfm2ForCausalLM"],
        "model_type": "lfm2",
        "hidden_size": 2048,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "num_hidden_layers": 2,
        "layer_types": ["conv", "full_attention"],
        "max_position_embeddings": 8192,
        "vocab_size": 65536,
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    alone = planned(f"vllm serve {tmp_path}", release="0.19.1")
    assert refusal(alone) == ("options", "AttributeError", "'Lfm2Config' object has no attribute 'conv_dim'")
    (tmp_path / "config.json").write_text(json.dumps(config | {"quantization_config": {"quant_method": "hqq"}}))
    both = planned(f"vllm serve {tmp_path}", release="0.19.1")
    assert refusal(both)[2].startswith("Unknown quantization method: hqq.")


def test_states_are_padded_for_attention_that_keeps_nothing() -> None:
    """Qwen3-Next: a state of 1,097,728 bytes, attention of 2 * 512 * 2 = 2,048 bytes a token: 544 tokens, whose page of
    1,114,112 bytes states take even where no attention has a page."""
    model = overridden(
        "Qwen/Qwen3-Next-80B-A3B-Instruct", architectures=["Qwen3NextForSequenceClassification"], is_causal=False
    )
    plan = planned(f"{model} --max-model-len 2048", release="0.33.0", gpu="h100:8")
    assert plan.error is None
    assert {layer.spec for layer in plan.layers} == {"MambaSpec"}
    assert {layer.page_bytes for layer in plan.layers} == {1_114_112}


def test_factors_of_a_long_rope_are_one_a_frequency() -> None:
    """A head of 192 elements has 96 frequencies, for which 32 factors are too few; one of 64 has 32."""
    rope = {"rope_type": "longrope", "short_factor": [1.0] * 32, "long_factor": [4.0] * 32, "rope_theta": 10000.0}
    rope["original_max_position_embeddings"] = 2048
    for size, refused in ((192, True), (64, False)):
        plan = planned(overridden("meta-llama/Llama-3.1-8B", head_dim=size, rope_parameters=rope), release="0.25.1")
        if not refused:
            assert plan.error is None
            continue
        assert refusal(plan)[:2] == ("layers", "RuntimeError")
        assert refusal(plan)[2].startswith("Attempting to broadcast a dimension of length 96")
