"""What --attention-config and the config hooks of models make of the choice of a backend.

The backends are those that vLLM chose when it was asked.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvplan.engine import Plan
from tests import asking

GPT_OSS = "openai/gpt-oss-120b"
WITHOUT_TRTLLM = ("--attention-config", '{"use_trtllm_attention": false}')


def planned(model: str, *flags: str, gpu: str = "b200", release: str = "0.33.0") -> Plan:
    return asking.planned(["vllm", "serve", model, "--max-model-len", "8192", *flags], release=release, gpu=gpu)


def backends(found: Plan) -> list[str]:
    assert found.error is None, found.error
    return sorted({str(layer.backend) for layer in found.layers})


@pytest.mark.parametrize(
    ("release", "gpu", "taken", "otherwise"),
    [
        ("0.16.0", "b200", "TRITON_ATTN", "FLASHINFER"),
        ("0.16.0", "rtxpro6000", "TRITON_ATTN", "TRITON_ATTN"),
        ("0.20.2", "b200", "FLASH_ATTN", "FLASHINFER"),
        ("0.25.1", "gb200", "FLASH_ATTN", "FLASHINFER"),
        ("0.25.1", "rtxpro6000", "TRITON_ATTN", "TRITON_ATTN"),
        ("0.28.0", "rtxpro6000", "TRITON_ATTN", "FLASHINFER"),
        ("0.33.0", "b200", "FLASH_ATTN", "FLASHINFER"),
        ("0.33.0", "rtx5090", "TRITON_ATTN", "FLASHINFER"),
        ("0.33.0", "h200", "FLASH_ATTN", "FLASH_ATTN"),
    ],
)
def test_sinks_need_the_trtllm_kernels(release: str, gpu: str, taken: str, otherwise: str) -> None:
    assert backends(planned(GPT_OSS, *WITHOUT_TRTLLM, gpu=gpu, release=release)) == [taken]
    assert backends(planned(GPT_OSS, gpu=gpu, release=release)) == [otherwise]
    on = ("--attention-config", '{"use_trtllm_attention": true}')
    assert backends(planned(GPT_OSS, *on, gpu=gpu, release=release)) == [otherwise]


def test_the_switch_may_be_written_in_several_ways() -> None:
    for value in ("false", "0", '"off"', '"No"'):
        assert backends(planned(GPT_OSS, "-ac", f'{{"use_trtllm_attention": {value}}}')) == ["FLASH_ATTN"]
    assert backends(planned(GPT_OSS, "--attention-config.use_trtllm_attention", "false")) == ["FLASH_ATTN"]
    assert backends(planned(GPT_OSS, "-ac", '{"use_trtllm_attention": null}')) == ["FLASHINFER"]


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ('{"use_trtllm_attention": "maybe"}', "use_trtllm_attention Input should be a valid boolean"),
        ('{"flash_attn_version": 5}', "flash_attn_version Input should be 2, 3 or 4"),
        ('{"use_non_causal": null}', "use_non_causal Input should be a valid boolean"),
        ('{"backend": "FOO"}', "backend Value error, Unknown attention backend: 'FOO'"),
        (
            '{"backend_per_kind": {"sliding_window": "triton_foo"}}',
            "backend_per_kind Value error, Unknown attention backend: 'TRITON_FOO'",
        ),
        (
            '{"backend_per_kind": {"sliding": "TRITON_ATTN"}}',
            "backend_per_kind Value error, Unknown KV cache group kind 'sliding' in backend_per_kind. Valid kinds are: "
            "chunked_local_attention, cross_attention",
        ),
    ],
)
def test_wrong_values_are_refused_by_the_parser(config: str, said: str) -> None:
    error = planned(GPT_OSS, "--attention-config", config).error
    assert error is not None
    assert error.type == "ArgError"
    told = " ".join(error.message.split())
    assert told.startswith(f"argument --attention-config/-ac: 1 validation error for AttentionConfig {said}")


def test_large_pages_need_the_trtllm_kernels() -> None:
    for flags, kernel in (((), 128), (WITHOUT_TRTLLM, 64)):
        found = planned("Qwen/Qwen3-30B-A3B", "--block-size", "128", *flags)
        assert backends(found) == ["FLASHINFER"]
        assert {group.kernel_block_size for group in found.groups} == {kernel}


def test_non_causal_attention_puts_flash_attention_first() -> None:
    found = planned("Qwen/Qwen3-30B-A3B", "-ac", '{"use_non_causal": true}')
    assert backends(found) == ["FLASH_ATTN"]
    assert backends(planned("Qwen/Qwen3-30B-A3B")) == ["FLASHINFER"]


def diffusion(folder: Path) -> str:
    return written(
        folder,
        {
            "architectures": ["DiffusionGemmaForBlockDiffusion"],
            "model_type": "diffusion_gemma",
            "canvas_length": 256,
            "text_config": {
                "model_type": "diffusion_gemma_text",
                "head_dim": 256,
                "hidden_size": 2304,
                "intermediate_size": 9216,
                "layer_types": (["sliding_attention"] * 5 + ["full_attention"]) * 2,
                "max_position_embeddings": 131072,
                "num_attention_heads": 8,
                "num_hidden_layers": 12,
                "num_key_value_heads": 4,
                "per_layer_config": {"05": {"head_dim": 512}, "11": {"head_dim": 512}},
                "sliding_window": 512,
                "vocab_size": 262144,
            },
        },
    )


def written(folder: Path, config: dict[str, Any]) -> str:
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return str(folder)


@pytest.mark.parametrize(
    ("release", "gpu", "flags", "taken"),
    [
        ("0.33.0", "h100", (), ["FLASH_ATTN"]),
        ("0.33.0", "h100", ("--kv-cache-dtype", "fp8"), ["FLASHINFER", "FLASH_ATTN"]),
        ("0.30.0", "h100", ("--kv-cache-dtype", "fp8"), ["FLASHINFER"]),
        ("0.33.0", "b200", (), ["FLASH_ATTN"]),
        ("0.28.0", "b200", (), ["FLASH_ATTN"]),
        ("0.33.0", "a100", (), ["TRITON_ATTN"]),
    ],
)
def test_diffusion_keeps_flashinfer_back(
    release: str, gpu: str, flags: tuple[str, ...], taken: list[str], tmp_path: Path
) -> None:
    assert backends(planned(diffusion(tmp_path), *flags, gpu=gpu, release=release)) == taken


def test_diffusion_refuses_flashinfer(tmp_path: Path) -> None:
    error = planned(diffusion(tmp_path), "--attention-backend", "FLASHINFER").error
    assert error is not None
    assert error.type == "ValidationError"
    assert error.message.startswith("FlashInfer does not support DiffusionGemma's mixed")


def test_blocks_of_models_with_two_head_sizes_follow_the_larger(tmp_path: Path) -> None:
    # At 256 elements FlashAttention 4 on Blackwell would ask for pages of 128 tokens.
    found = planned(diffusion(tmp_path), release="0.30.0")
    assert {layer.block_size for layer in found.layers} == {16, 32}


def output_window(folder: Path) -> str:
    return written(
        folder,
        {
            "architectures": ["UnlimitedOCRForCausalLM"],
            "model_type": "unlimited-ocr",
            "language_config": {
                "architectures": ["DeepseekV2ForCausalLM"],
                "model_type": "deepseek_v2",
                "hidden_size": 1280,
                "intermediate_size": 6848,
                "max_position_embeddings": 8192,
                "num_attention_heads": 10,
                "num_hidden_layers": 12,
                "num_key_value_heads": 10,
                "kv_lora_rank": None,
                "q_lora_rank": None,
                "qk_nope_head_dim": 0,
                "qk_rope_head_dim": 0,
                "v_head_dim": 0,
                "use_mla": False,
                "vocab_size": 129280,
            },
        },
    )


@pytest.mark.parametrize(("gpu", "taken"), [("h100", "FLASH_ATTN"), ("b200", "FLASH_ATTN"), ("a100", "TRITON_ATTN")])
def test_rswa_takes_what_can_mask_so(gpu: str, taken: str, tmp_path: Path) -> None:
    model = output_window(tmp_path)
    found = planned(model, gpu=gpu)
    assert backends(found) == [taken]
    assert {layer.spec for layer in found.layers} == {"RSWASpec"}
    assert backends(planned(model, "--attention-backend", "FLEX_ATTENTION", gpu=gpu)) == ["FLEX_ATTENTION"]


def test_rswa_refuses_backends_that_cannot(tmp_path: Path) -> None:
    model = output_window(tmp_path)
    without = planned(model, "--attention-backend", "FLASHINFER").error
    too_old = planned(model, "--attention-backend", "FLASH_ATTN", gpu="a100").error
    assert without is not None
    assert (without.type, without.stage) == ("ValidationError", "options")
    assert too_old is not None
    assert too_old.type == "RuntimeError"
