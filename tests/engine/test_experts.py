"""Routed experts: backends that are asked for, shares that must be equal, quantisation that must allow both."""

from __future__ import annotations

import pytest

from kvplan.engine.checks import expert_backends, expert_kernels
from kvplan.engine.checks.expert_kernels import Demand, objection
from kvplan.releases import KNOWN, Release, resolve
from tests.engine.test_checks import planned, quantised

BLOCKS = Demand((9, 0), "fp8_block", "fp8_group", "silu")
FP8 = "Qwen/Qwen3-30B-A3B-FP8"
FP4 = "nvidia/Qwen3-30B-A3B-NVFP4"
PLAIN = "Qwen/Qwen3-30B-A3B"
OPEN = "openai/gpt-oss-20b"
MIXED = {
    "quant_method": "compressed-tensors",
    "format": "mxfp4-pack-quantized",
    "ignore": ["lm_head"],
    "config_groups": {
        "group_0": {
            "targets": ["re:.*(gate|up|down)_proj"],
            "weights": {"num_bits": 4, "type": "float", "strategy": "group", "group_size": 32},
            "input_activations": None,
        }
    },
}


@pytest.mark.parametrize(
    ("command", "version", "gpu", "text"),
    [
        (f"{FP4} --moe-backend triton", "0.17.1", "b200", "'triton' is not supported for NvFP4 MoE. Expected one of"),
        (f"{FP4} --moe-backend triton-unfused", "0.33.0", "b200", "moe_backend='triton_unfused' is not supported for"),
        (f"{FP4} --moe-backend flashinfer_cutedsl", "0.33.0", "h200", "NvFp4 MoE backend 'FLASHINFER_CUTEDSL' does"),
        (f"{FP8} --moe-backend flashinfer_trtllm", "0.25.1", "h100", "FP8 MoE backend FLASHINFER_TRTLLM does not"),
        (f"{FP8} --moe-backend cutlass", "0.33.0", "h100", "vLLM CUTLASS FP8 MoE backend is disabled"),
        (f"{FP8} --moe-backend triton", "0.33.0", "a100", "does not support quantization scheme fp8_block"),
        (f"{FP8} --moe-backend deep_gemm", "0.23.0", "rtx5090", "DEEPGEMM does not support the deployment"),
        (f"{PLAIN} --moe-backend cutlass", "0.33.0", "b200", "'cutlass' is not supported for unquantized MoE."),
        (f"{PLAIN} --moe-backend humming", "0.24.0", "h100", "'humming' is not supported for unquantized MoE."),
        (f"{PLAIN} --moe-backend flashinfer_trtllm", "0.19.1", "h100", "FlashInfer TRTLLM MoE backend is not avail"),
        (f"{PLAIN} --moe-backend flashinfer_trtllm", "0.33.0", "h100", "Unquantized MoE backend FlashInfer TRTLLM"),
        (f"{OPEN} --moe-backend flashinfer_trtllm", "0.25.1", "a100", "Mxfp4 MoE backend 'FLASHINFER_TRTLLM_MXFP4_BF"),
        (
            "nvidia/MiniMax-M3-NVFP4 --trust-remote-code --moe-backend humming",
            "0.27.1",
            "b200",
            "Model sets swiglu_limit=7.0, but the explicitly requested moe_backend='humming' does not apply",
        ),
        (f"{OPEN} --moe-backend triton", "0.31.0", "rtx5090", "Mxfp4 MoE backend 'TRITON' does not support"),
    ],
)
def test_backends_refused(command: str, version: str, gpu: str, text: str) -> None:
    error = planned(command, version, gpu).error
    assert error is not None
    assert (error.stage, error.code, error.type) == ("layers", "expert_backend", "ValueError")
    assert text in error.message


@pytest.mark.parametrize(
    ("command", "version", "gpu"),
    [
        (f"{FP8} --moe-backend triton", "0.33.0", "l40s"),
        (f"{FP8} --moe-backend marlin", "0.33.0", "a100"),
        (f"{FP8} --moe-backend deep_gemm", "0.24.0", "rtx5090"),
        (f"{PLAIN} --moe-backend humming", "0.25.1", "h100"),
        (f"{PLAIN} --moe-backend cutlass --enable-lora", "0.33.0", "h100"),
        (f"{OPEN} --moe-backend triton", "0.32.0", "rtx5090"),
        (f"{OPEN} --moe-backend auto", "0.33.0", "a100"),
        ("Qwen/Qwen3-8B --moe-backend aiter", "0.33.0", "h100"),
    ],
)
def test_backends_taken(command: str, version: str, gpu: str) -> None:
    assert planned(f"{command} --max-model-len 4096", version, gpu).error is None


@pytest.mark.parametrize(
    ("flags", "version", "message"),
    [
        # 128 experts and 2 more on 4 ranks: 32 and a half each.
        ("-tp 4 --eplb-config '{\"num_redundant_experts\": 2}'", "0.33.0", "Got 130 experts and 4 EP ranks."),
        (
            "-tp 4 --eplb-config '{\"num_redundant_experts\": 2}'",
            "0.21.0",
            "even distribution of experts across ranks.",
        ),
        ("-tp 4 -dp 2 --eplb-config '{\"num_redundant_experts\": 4}'", "0.25.1", "Got 132 experts and 8 EP ranks."),
    ],
)
def test_equal_shares(flags: str, version: str, message: str) -> None:
    error = planned(f"{FP8} --enable-expert-parallel --enable-eplb {flags}", version).error
    assert error is not None
    assert error.code == "experts_uneven"
    assert error.message.endswith(message)


@pytest.mark.parametrize(
    ("model", "version", "method"),
    [
        (OPEN, "0.33.0", "GptOssMxfp4MoEMethod"),
        ("moonshotai/Kimi-K2.5 --trust-remote-code", "0.33.0", "CompressedTensorsWNA16MoEMethod"),
        ("moonshotai/Kimi-K2.5 --trust-remote-code", "0.26.0", "CompressedTensorsWNA16MarlinMoEMethod"),
    ],
)
def test_methods_that_cannot_balance(model: str, version: str, method: str) -> None:
    error = planned(f"{model} -tp 8 --enable-expert-parallel --enable-eplb", version).error
    assert error is not None
    assert (error.code, error.type) == ("experts_not_balanced", "NotImplementedError")
    assert error.message == f"EPLB is not supported {method}."


def test_older_releases_ask_only_models_that_hand_balancing_on() -> None:
    """gpt-oss' class does not."""
    flags = "-tp 2 --enable-expert-parallel --enable-eplb --max-model-len 4096"
    assert planned(f"{OPEN} {flags}", "0.23.0").error is None
    assert planned(f"{FP8} {flags}", "0.33.0").error is None


def test_projections_of_one_expert_are_quantised_alike() -> None:
    """Mixtral's experts have a gate; Nemotron's have none, and vLLM looks for a projection called `None` there."""
    nemotron = "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16"
    error = quantised(nemotron, MIXED, "--trust-remote-code", "0.33.0").error
    assert error is not None
    assert error.message.startswith("All MoE projections need to have same quantization scheme")
    assert quantised(nemotron, MIXED, "--trust-remote-code", "0.31.0").error is None
    assert quantised("mistralai/Mixtral-8x7B-Instruct-v0.1", MIXED, "", "0.33.0").error is None


@pytest.mark.parametrize("version", KNOWN)
def test_every_kernel_that_a_backend_names_has_facts(version: str) -> None:
    """The rows of the two tables belong together: a name that runs nowhere would always be refused."""
    release = resolve(version)
    for kind in expert_backends.KINDS.values():
        if not release.within(kind):
            continue
        for choice in kind.choices:
            for kernel in choice.kernels if release.within(choice) else ():
                assert _has_facts(kernel, release), (choice.name, kernel)


def _has_facts(name: str, release: Release) -> bool:
    return any(row.name == name and release.within(row) for row in expert_kernels.KERNELS)


@pytest.mark.parametrize(
    ("kernel", "demand", "version", "expected"),
    [
        ("TritonExperts", BLOCKS, "0.33.0", None),
        ("TrtLlmFp8Experts", BLOCKS, "0.33.0", "kernel does not support current device cuda"),
        (
            "FlashInferExperts",
            Demand((9, 0), "nvfp4", "nvfp4", "silu"),
            "0.33.0",
            "kernel does not support quantization scheme nvfp4xnvfp4",
        ),
        (
            "CutlassExpertsFp4",
            Demand((10, 0), "nvfp4", "nvfp4", "silu", True),
            "0.31.0",
            "kernel does not support parallel config",
        ),
        ("CutlassExpertsFp4", Demand((10, 0), "nvfp4", "nvfp4", "silu", True), "0.32.0", None),
        (
            "OCP_MXQuantizationEmulationTritonExperts",
            Demand((9, 0), "mxfp4", "none", "situ"),
            "0.28.0",
            "kernel requires amd-quark package",
        ),
        (
            "TritonOrDeepGemmExperts",
            Demand((9, 0), "fp8_block", "fp8_group", "gelu"),
            "0.33.0",
            "kernel does not support gelu activation",
        ),
    ],
)
def test_kernels(kernel: str, demand: Demand, version: str, expected: str | None) -> None:
    assert objection(kernel, demand, resolve(version)) == expected


@pytest.mark.parametrize(
    ("environment", "command", "version", "gpu", "text"),
    [
        ("VLLM_USE_DEEP_GEMM=1", FP8, "0.33.0", "a100", "FP8 MoE backend DEEPGEMM does not support"),
        ("VLLM_USE_DEEP_GEMM=0", f"{FP8} --moe-backend deep_gemm", "0.33.0", "h100", "FP8 MoE backend DEEPGEMM does"),
        ("VLLM_ROCM_USE_AITER=1", FP8, "0.33.0", "h100", "FP8 MoE backend AITER does not support"),
        ("VLLM_ROCM_USE_AITER=1", PLAIN, "0.30.0", "h100", "Unquantized MoE backend ROCm AITER does not support"),
        ("VLLM_USE_FLASHINFER_MOE_FP8=1", FP8, "0.23.0", "a100", "Found VLLM_USE_FLASHINFER_MOE_FP8=1, but no FlashIn"),
        ("VLLM_USE_FLASHINFER_MOE_FP4=1", FP4, "0.16.0", "h100", "Found VLLM_USE_FLASHINFER_MOE_FP4=1, but no FlashIn"),
    ],
)
def test_variables_that_name_kernels(environment: str, command: str, version: str, gpu: str, text: str) -> None:
    error = planned(command, version, gpu, environment).error
    assert error is not None
    assert error.code == "expert_backend"
    assert error.message.startswith(text)


@pytest.mark.parametrize(
    ("environment", "command", "version", "gpu"),
    [
        ("VLLM_USE_DEEP_GEMM=1", FP8, "0.33.0", "h100"),
        ("VLLM_USE_DEEP_GEMM=0", FP8, "0.33.0", "h100"),
        ("VLLM_ROCM_USE_AITER=1", PLAIN, "0.31.0", "h100"),
        ("VLLM_USE_FLASHINFER_MOE_FP8=1", FP8, "0.24.0", "a100"),
        ("VLLM_USE_FLASHINFER_MOE_FP8=1", FP8, "0.23.0", "h100"),
    ],
)
def test_variables_without_harm(environment: str, command: str, version: str, gpu: str) -> None:
    assert planned(f"{command} --max-model-len 4096", version, gpu, environment).error is None


def test_redundant_experts_of_a_class_that_does_not_balance() -> None:
    flags = "-tp 4 --enable-expert-parallel --enable-eplb"
    for version in ("0.19.1", "0.33.0"):
        error = planned(f"zai-org/GLM-4.7-Flash {flags} --eplb-config.num_redundant_experts 4", version).error
        assert error is not None
        assert (error.code, error.type) == ("experts_not_balanced", "AssertionError")
    assert planned(f"zai-org/GLM-4.7-Flash {flags} --max-model-len 4096", "0.33.0").error is None
