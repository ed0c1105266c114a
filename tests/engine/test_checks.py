"""Refusals beside the main road: quantisation, bounds, kernels, weight blocks, remote code."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from kvplan.checkpoint import load
from kvplan.checkpoint.load import load as load_with
from kvplan.engine import Plan, plan
from kvplan.engine.checks import methods
from kvplan.engine.checks.cache_methods import refuses_e5m2
from kvplan.launch.build import from_command
from kvplan.launch.hardware import parse_gpu
from kvplan.releases import KNOWN, Release, resolve


def planned(command: str, version: str = "0.33.0", gpu: str = "h200") -> Plan:
    launch = from_command(
        shlex.split(f"vllm serve {command}"),
        release=resolve(version),
        hardware=parse_gpu(gpu),
        available_kv_memory=60 << 30,
    )
    assert launch.model is not None
    overrides: Any = launch.get("hf_overrides")
    checkpoint = load_with(launch.model, offline=True, hf_overrides=overrides) if overrides else load(launch.model)
    return plan(checkpoint, launch)


def refusal(command: str, version: str = "0.33.0", gpu: str = "h200") -> tuple[str, str, str]:
    """(code, exception type, message) of the first error."""
    error = planned(command, version, gpu).error
    assert error is not None
    return error.code, error.type, error.message


@pytest.mark.parametrize(
    ("command", "version", "gpu", "code", "text"),
    [
        ("openai/gpt-oss-120b --dtype float16", "0.33.0", "h200", "quantization_dtype", "method gpt_oss_mxfp4."),
        ("openai/gpt-oss-120b --dtype float16", "0.19.1", "h200", "quantization_dtype", "method mxfp4."),
        (
            "Qwen/Qwen3-8B-FP8 --dtype float32",
            "0.25.1",
            "h200",
            "quantization_dtype",
            "[torch.bfloat16, torch.float16]",
        ),
        ("nvidia/Llama-3.1-70B-Instruct-FP8", "0.26.0", "a100", "quantization_capability", "Minimum capability: 89"),
        ("Qwen/Qwen3-8B-FP8 -q awq", "0.25.1", "h200", "quantization_mismatch", "(fp8) does not match"),
        ("meta-llama/Llama-3.1-8B -q gptq", "0.33.0", "h200", "quantization_file_missing", "config file for gptq"),
        ("meta-llama/Llama-3.1-8B -q nonsense", "0.33.0", "h200", "quantization_unknown", "method: nonsense"),
        ("meta-llama/Llama-3.1-405B-Instruct-FP8", "0.33.0", "h200", "quantization_deprecated", "'fbgemm_fp8')"),
        ("moonshotai/Kimi-K2-Instruct", "0.16.0", "h200", "remote_code", "contains custom code"),
        ("deepseek-ai/DeepSeek-V4-Flash -tp 8", "0.16.0", "h200", "config_not_read", "'rope_type' key"),
        ("meta-llama/Llama-3.1-8B --enable-expert-parallel", "0.33.0", "h200", "no_experts", "Number of experts"),
        ("meta-llama/Llama-3.1-8B -tp 8", "0.33.0", "h200:4", "too_few_gpus", "World size (8)"),
        ("meta-llama/Llama-3.1-8B --gpu-memory-utilization 1.2", "0.16.0", "h200", "invalid_value", "or equal to 1"),
        ("meta-llama/Llama-3.1-8B --max-num-seqs 0", "0.23.0", "h200", "invalid_value", "max_num_batched_tokens"),
        ("meta-llama/Llama-3.1-8B --block-size 0", "0.23.0", "h200", "invalid_value", "greater than 0"),
        ("meta-llama/Llama-3.1-8B -dp 0", "0.22.1", "h200", "invalid_value", "must be in the range [0, 0)"),
    ],
)
def test_config_refuses(command: str, version: str, gpu: str, code: str, text: str) -> None:
    found, kind, message = refusal(command, version, gpu)
    assert (found, kind) == (code, "ValidationError")
    assert text in message


@pytest.mark.parametrize(
    ("command", "version", "gpu"),
    [
        ("nvidia/Llama-3.1-70B-Instruct-FP8 -tp 2", "0.27.1", "a100"),
        ("moonshotai/Kimi-K2-Instruct", "0.18.1", "h200"),
        ("moonshotai/Kimi-K2-Instruct --trust-remote-code", "0.16.0", "h200"),
        ("meta-llama/Llama-3.1-8B -tp 8 --distributed-executor-backend ray", "0.33.0", "h200:4"),
        ("meta-llama/Llama-3.1-8B -q fp8", "0.33.0", "h200"),
        ("MiniMaxAI/MiniMax-M2.5 -tp 16", "0.29.0", "h200"),
        ("Qwen/Qwen3-30B-A3B-FP8 -tp 16 --enable-expert-parallel", "0.28.0", "h200"),
    ],
)
def test_starts(command: str, version: str, gpu: str) -> None:
    assert planned(command, version, gpu).error is None


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--block-size 0", "integer division or modulo by zero"),
        ("--block-size -16", "integer modulo by zero"),
        ("-tp 0", "integer modulo by zero"),
    ],
)
def test_sizes_divide_before_they_have_bounds(flags: str, message: str) -> None:
    assert refusal(f"meta-llama/Llama-3.1-8B {flags}", "0.22.1") == ("invalid_value", "ZeroDivisionError", message)


def test_quantisation_refusal_keeps_the_plan() -> None:
    found = planned("openai/gpt-oss-120b --dtype float16")
    assert found.error is not None
    assert found.layers
    assert found.capacity is not None


@pytest.mark.parametrize(
    ("command", "version", "message"),
    [
        # 25,600 / 16 = 1,600 = 12.5 blocks of 128; the output side of gate and up fails first.
        ("Qwen/Qwen3-32B-FP8 -tp 16", "0.33.0", "= 1600 is not divisible"),
        # 768 / 16 = 48 rows an expert.
        ("Qwen/Qwen3-30B-A3B-FP8 -tp 16", "0.20.2", "weight = 48 is not divisible"),
        # 1,536 / 16 = 96 rows; from 0.29.0 on they are re-cut into blocks of 32.
        ("MiniMaxAI/MiniMax-M2.5 -tp 16", "0.25.1", "weight = 96 is not divisible"),
    ],
)
def test_weight_blocks(command: str, version: str, message: str) -> None:
    code, kind, text = refusal(command, version)
    assert (code, kind) == ("weight_block_split", "ValueError")
    assert message in text


@pytest.mark.parametrize(
    ("command", "version", "gpu", "kind"),
    [
        ("meta-llama/Llama-2-7b-hf --kv-cache-dtype fp8", "0.27.1", "t4", "ValueError"),
        ("google/gemma-2-9b --attention-backend FLEX_ATTENTION", "0.29.0", "h200", "NotImplementedError"),
        ("google/gemma-2-9b --dtype float32 --kv-cache-dtype bfloat16", "0.27.1", "t4", "ValueError"),
    ],
)
def test_implementations_refuse(command: str, version: str, gpu: str, kind: str) -> None:
    code, found, _ = refusal(command, version, gpu)
    assert (code, found) == ("implementation_refuses", kind)


def test_triton_did_not_look_before() -> None:
    assert planned("meta-llama/Llama-2-7b-hf --kv-cache-dtype fp8", "0.23.0", "t4").error is None


@pytest.mark.parametrize(
    ("method", "section", "mla", "version", "refused"),
    [
        ("fp8", {}, False, "0.33.0", True),
        ("fp8", {}, True, "0.33.0", False),
        ("fp8", None, False, "0.30.0", True),
        ("fp8", None, False, "0.31.0", False),
        ("fbgemm_fp8", {}, False, "0.33.0", False),
        ("auto_awq", {}, False, "0.33.0", False),
        ("modelopt_fp4", {}, True, "0.16.0", False),
        ("modelopt_fp4", {}, True, "0.17.1", True),
        ("compressed-tensors", {}, False, "0.23.0", True),
        ("compressed-tensors", {}, False, "0.24.0", False),
        ("compressed-tensors", {"kv_cache_scheme": {}}, False, "0.24.0", True),
        (None, None, False, "0.33.0", False),
    ],
)
def test_e5m2(method: str | None, section: dict[str, Any] | None, mla: bool, version: str, refused: bool) -> None:
    assert refuses_e5m2(method, section, mla=mla, release=resolve(version)) is refused


@pytest.mark.parametrize(
    ("section", "asked", "version", "method"),
    [
        (
            {"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": True, "desc_act": False},
            None,
            "0.21.0",
            "gptq_marlin",
        ),
        ({"quant_method": "gptq", "bits": 3, "group_size": 128, "sym": True, "desc_act": False}, None, "0.21.0", None),
        ({"quant_method": "gptq", "bits": 4}, None, "0.22.1", "auto_gptq"),
        ({"quant_method": "gptq", "bits": 4}, "moe_wna16", "0.22.1", "moe_wna16"),
        ({"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}, None, "0.23.0", "awq_marlin"),
        ({"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}, "awq", "0.23.0", None),
        ({"quant_method": "awq"}, "awq", "0.24.0", "auto_awq"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, None, "0.16.0", "modelopt_fp4"),
        ({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"}, None, "0.16.0", None),
        ({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"}, None, "0.17.1", "modelopt_mixed"),
        ({"quant_method": "auto-round"}, None, "0.33.0", "inc"),
        ({"quant_method": "fp8"}, "humming", "0.33.0", "humming"),
    ],
)
def test_methods_that_claim_checkpoints(
    section: dict[str, Any], asked: str | None, version: str, method: str | None
) -> None:
    assert methods.converted(section, asked, "llama", (9, 0), resolve(version)) == method


@pytest.mark.parametrize("name", KNOWN)
def test_every_release_has_each_method_once(name: str) -> None:
    found = methods.known(Release(name, name))
    assert len(found) == len(set(found))
    assert {"fp8", "compressed-tensors", "modelopt"} <= set(found)
