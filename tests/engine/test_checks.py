"""Refusals beside the main road: quantisation, bounds, kernels, weight blocks, remote code."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest

from kvplan.engine import Plan
from kvplan.engine.checks import methods
from kvplan.engine.checks.cache_methods import refuses_e5m2
from kvplan.engine.failures import WeightBlockSplit
from kvplan.releases import KNOWN, Release, resolve
from tests import asking


def planned(command: str, version: str = "0.33.0", gpu: str = "h200", environment: str = "") -> Plan:
    return asking.planned(f"{environment} vllm serve {command}", release=version, gpu=gpu)


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
        ("meta-llama/Llama-3.1-8B --stream-interval 0", "0.16.0", "h200", "invalid_value", "or equal to 1"),
        ("meta-llama/Llama-3.1-8B --max-logprobs -2", "0.25.1", "h200", "invalid_value", "or equal to -1"),
        ("meta-llama/Llama-3.1-8B --max-num-queued-reqs -1", "0.29.0", "h200", "invalid_value", "or equal to 0"),
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
        ("meta-llama/Llama-3.1-8B --max-logprobs -2", "0.24.0", "h200"),
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


AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128, "version": "gemm", "zero_point": True}
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False, "sym": True}
ROUNDED = {
    "quant_method": "auto-round",
    "bits": 4,
    "group_size": 128,
    "sym": True,
    "data_type": "int",
    "packing_format": "auto_round:auto_gptq",
}
MICROSCALED = {
    "quant_method": "quark",
    "export": {"kv_cache_group": [], "pack_method": "reorder"},
    "exclude": ["lm_head"],
    "global_quant_config": {"weight": {"dtype": "fp4", "qscheme": "per_group", "group_size": 32}},
    "layer_quant_config": {},
    "layer_type_quant_config": {},
}


def packed(weights: dict[str, Any], **more: Any) -> dict[str, Any]:
    group = {"targets": ["Linear"], "input_activations": None, "weights": weights}
    return {"quant_method": "compressed-tensors", "config_groups": {"group_0": group}, "ignore": ["lm_head"], **more}


INTEGERS = packed({"type": "int", "num_bits": 4, "strategy": "group", "group_size": 128, "symmetric": True})
EIGHT = packed({"type": "int", "num_bits": 8, "strategy": "group", "group_size": 128, "symmetric": True})
BLOCKS = packed({"type": "float", "num_bits": 8, "strategy": "block", "block_structure": [128, 128]})
FP4 = {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"]}


def quantised(
    model: str, section: dict[str, Any], flags: str, version: str, gpu: str = "h200", environment: str = ""
) -> Plan:
    overrides = shlex.quote(json.dumps({"quantization_config": section}))
    return planned(f"{model} --hf-overrides {overrides} --max-model-len 4096 {flags}", version, gpu, environment)


@pytest.mark.parametrize(
    ("model", "section", "flags", "version", "exception", "text"),
    [
        # 29,568 rows over 8 ranks are 3,696: 28 groups of 128 and 112 rows.
        ("Qwen/Qwen2.5-72B", AWQ, "-tp 8", "0.33.0", "ValueError", "The input size is not aligned"),
        ("Qwen/Qwen2.5-72B", AWQ, "-tp 8", "0.16.0", "ValueError", "The input size is not aligned"),
        ("Qwen/Qwen2.5-72B", INTEGERS, "-tp 8", "0.33.0", "ValueError", "input_size_per_partition=3696 for layer"),
        ("Qwen/Qwen2.5-72B", INTEGERS, "-tp 8", "0.24.0", "AssertionError", ""),
        # Two times 3,696 columns are no multiple of 64, which Marlin wanted before it padded.
        ("Qwen/Qwen2.5-72B", INTEGERS, "-tp 8", "0.18.1", "ValueError", "Failed to find a kernel"),
        ("Qwen/Qwen2.5-72B", ROUNDED, "-tp 4", "0.22.1", "ValueError", "Failed to find a kernel"),
        ("Qwen/Qwen2.5-72B", BLOCKS, "-tp 4", "0.18.1", "ValueError", "output_partition_size = 7392"),
        ("Qwen/Qwen2.5-72B", MICROSCALED, "-tp 8", "0.29.0", "ValueError", "input size per partition of 3696"),
        # 7 heads of 64 a rank: 448 rows are three and a half groups.
        ("Qwen/Qwen2-0.5B-Instruct", AWQ, "-tp 2", "0.33.0", "ValueError", "The input size is not aligned"),
        # 768 over 16 ranks are 48: a group of 128 can only be halved to 16, which is less than 32.
        ("Qwen/Qwen3-30B-A3B", AWQ, "-tp 16", "0.33.0", "AssertionError", ""),
        ("Qwen/Qwen3-30B-A3B", GPTQ, "-tp 16", "0.18.1", "AssertionError", ""),
        ("Qwen/Qwen3-30B-A3B", INTEGERS, "-tp 8", "0.33.0", "ValueError", "partition (96) to be divisible by group_s"),
        ("Qwen/Qwen3-30B-A3B", BLOCKS, "-tp 8", "0.33.0", "ValueError", "gate's and up's weight = 96 is not"),
        # Nemotron's shared expert has 3,712 rows: 1,856 on each of 2 ranks, 14 groups of 128 and 64 rows.
        (
            "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
            EIGHT,
            "-tp 2 --enable-expert-parallel --trust-remote-code",
            "0.31.0",
            "ValueError",
            "=1856 for layer 'model.layers.1.mixer.shared_experts.down_proj' is not divisible by group_size=128",
        ),
        # gpt-oss has 2,880 rows: on 4 ranks 720, of which 16 is the largest power of two that divides them.
        ("openai/gpt-oss-20b", GPTQ, "-tp 4", "0.33.0", "AssertionError", ""),
        ("openai/gpt-oss-20b", GPTQ | {"group_size": -1}, "", "0.33.0", "RuntimeError", "negative dimension -2880"),
        # Gemma 4's MLP has 2,112 rows, 16 groups of 128 and 64 rows, on one GPU too.
        ("google/gemma-4-26B-A4B-it", AWQ, "", "0.33.0", "ValueError", "The input size is not aligned with the quant"),
        # Step 3.5's MLP has 11,264 rows: 704 on each of 16 ranks.
        ("stepfun-ai/Step-3.5-Flash", INTEGERS, "-tp 16", "0.33.0", "ValueError", "=704 for layer 'model.layers.0.ml"),
        # Qwen2.5-VL's tower has 1,280 columns: 320 on each of 4 ranks.
        ("Qwen/Qwen2.5-VL-7B-Instruct", INTEGERS, "-tp 4", "0.33.0", "ValueError", "=320 for layer 'visual.blocks.0"),
        # Behind Qwen3-VL's tower 2 x 2 patches of 1,152 columns go into one projection: 576 on each of 8 ranks.
        ("Qwen/Qwen3-VL-8B-Instruct", BLOCKS, "-tp 8", "0.33.0", "ValueError", "output_partition_size = 576 is not"),
        # A gated delta net makes two scalars for each of 32 heads: 8 columns on each of 8 ranks.
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", BLOCKS, "-tp 8", "0.33.0", "ValueError", "output_partition_size = 8 is"),
        ("Qwen/Qwen1.5-MoE-A2.7B", GPTQ | {"group_size": -1}, "-tp 4", "0.20.2", "RuntimeError", "negative dimension"),
        # 10,944 rows over 8 ranks are 1,368, no multiple of 16.
        ("zai-org/GLM-4.5-Air", FP4, "-tp 8", "0.18.1", "ValueError", "in features size is not multiple of 16"),
    ],
)
def test_weights_that_ranks_would_cut(
    model: str, section: dict[str, Any], flags: str, version: str, exception: str, text: str
) -> None:
    error = quantised(model, section, flags, version).error
    assert error is not None
    assert (error.stage, error.code, error.type) == ("layers", "weight_block_split", exception)
    assert text in error.message


def test_batch_invariant_awq_computes_in_float16() -> None:
    """Marlin's kernels are not batch invariant: releases with a method of their own for them keep the plain one."""
    model, steady = "Qwen/Qwen2.5-7B-Instruct", "VLLM_BATCH_INVARIANT=1"
    refused = quantised(model, AWQ, "", "0.23.0", environment=steady).error
    assert refused is not None
    assert refused.message.startswith("torch.bfloat16 is not supported for quantization method awq.")
    assert quantised(model, AWQ, "", "0.24.0", environment=steady).ok
    assert quantised(model, AWQ, "", "0.23.0").ok


@pytest.mark.parametrize(("flag", "kind"), [("-tp", "tensor"), ("-pp", "pipeline")])
def test_the_transformers_backend_wants_a_plan_for_parallelism(flag: str, kind: str) -> None:
    """BERT's masked language model runs on Transformers' own code, whose config has no such plans."""
    model = "google-bert/bert-base-multilingual-cased"
    error = planned(f"{model} {flag} 2", "0.16.0").error
    assert error is not None
    assert (error.stage, error.type, error.code) == ("layers", "ValueError", "no_parallel_plan")
    assert f"does not support {kind} parallel" in error.message
    assert planned(model, "0.16.0").ok
    assert planned(f"{model} -tp 2", "0.25.1").ok


def test_a_tower_that_is_quantised_like_its_decoder() -> None:
    """The list of what stays unquantised names `model.vision_tower`, vLLM calls it `vpm`: 4,304 rows are 33 groups of
    128 and 80 rows, on one GPU too."""
    ((_, split),) = planned("openbmb/MiniCPM-V-4_6", "0.33.0").failures(WeightBlockSplit)
    assert (split.weight, split.size, split.block) == ("vpm.encoder.layers.0.mlp.fc2", 4_304, 128)


@pytest.mark.parametrize(
    ("model", "section", "flags", "version", "gpu"),
    [
        ("Qwen/Qwen2.5-72B", AWQ, "-pp 8", "0.33.0", "h200"),
        # From 0.23.0 on Humming's kernels take what GPTQ's packing cuts; AutoRound asks for no whole groups.
        ("Qwen/Qwen2.5-72B", ROUNDED, "-tp 8", "0.23.0", "h200"),
        ("Qwen/Qwen2.5-72B", MICROSCALED, "-tp 8", "0.28.0", "h200"),
        ("Qwen/Qwen3-30B-A3B", AWQ, "-tp 16 --enable-expert-parallel", "0.33.0", "h200"),
        ("Qwen/Qwen3-30B-A3B", INTEGERS, "-tp 8", "0.23.0", "h200"),
        ("Qwen/Qwen1.5-MoE-A2.7B", GPTQ | {"group_size": -1}, "-tp 4", "0.25.1", "h200"),
        ("Qwen/Qwen2.5-72B", AWQ | {"modules_to_not_convert": ["mlp"]}, "-tp 8", "0.33.0", "h200"),
        ("Qwen/Qwen2.5-72B", INTEGERS | {"ignore": ["re:.*down_proj$"]}, "-tp 8", "0.33.0", "h200"),
        ("zai-org/GLM-4.5-Air", FP4 | {"ignore": ["model.layers.0*"]}, "-tp 8", "0.18.1", "b200"),
    ],
)
def test_weights_that_ranks_own_wholly(model: str, section: dict[str, Any], flags: str, version: str, gpu: str) -> None:
    error = quantised(model, section, flags, version, gpu).error
    assert error is None or error.code != "weight_block_split"


def test_exllama_takes_half_precision_where_marlin_does_not() -> None:
    """1,792 columns of 7 heads and more, 18,944 rows over 8 ranks: 2,368 rows, 18.5 groups of 128."""
    found = quantised("Qwen/Qwen2.5-72B", INTEGERS, "-tp 8 --dtype float16", "0.18.1").error
    assert found is not None
    assert (found.type, found.message) == ("AssertionError", "")


def test_ordered_groups_are_no_longer_run() -> None:
    section = GPTQ | {"desc_act": True}
    error = quantised("Qwen/Qwen2.5-7B", section, "", "0.30.0").error
    assert error is not None
    assert (error.stage, error.code) == ("options", "quantization_order")
    assert quantised("Qwen/Qwen2.5-7B", section, "", "0.29.0").error is None
    assert quantised("Qwen/Qwen2.5-7B", section | {"group_size": -1}, "", "0.30.0").error is None


def test_weights_quantised_while_loading_keep_whole_blocks() -> None:
    assert refusal("Qwen/Qwen3-30B-A3B -q mxfp8 -tp 16", "0.33.0")[2].startswith("Online MXFP8 MoE requires")
    assert planned("Qwen/Qwen3-30B-A3B -q mxfp8 -tp 8", "0.33.0").error is None


def test_ranks_share_intermediate_sizes() -> None:
    """Llama-2-13B's 40 heads and 32,000 tokens fit 5 ranks, its 13,824 rows do not."""
    assert refusal("meta-llama/Llama-2-13b-hf -tp 5", "0.33.0") == ("part_not_divisible", "AssertionError", "")
    assert planned("meta-llama/Llama-2-13b-hf -tp 4", "0.33.0").error is None
