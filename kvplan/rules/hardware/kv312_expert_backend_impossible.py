"""KV312: --moe-backend names kernels that cannot run this model's experts."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.failures import ExpertBackend
from kvplan.engine.values import Plan
from kvplan.rules import words
from kvplan.rules.failures import said
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV312"
FLAG = "--moe-backend"


def check(plan: Plan) -> Iterator[Finding]:
    """At most one finding."""
    for error, facts in plan.failures(ExpertBackend):
        asked = facts.option if facts.value is None else f"{facts.option} {facts.value}"
        if facts.accepted:
            message = f"{asked} is not for {facts.weights} experts, which {plan.checkpoint.name} has ({said(error)})"
            fix = f"drop {FLAG}, or name one of {', '.join(facts.accepted)}"
        else:
            message = (
                f"{words.release_name(plan)} cannot run {facts.weights} experts with {asked} on "
                f"{plan.launch.hardware.name} ({said(error)})"
            )
            fix = f"drop {facts.option}: vLLM then takes the first kernels that can"
        yield Finding(rule=CODE, severity=Severity.ERROR, message=message, options=(facts.option,), fix=fix)


RULE = Rule(
    code=CODE,
    name="expert-backend-impossible",
    severity=Severity.ERROR,
    summary="--moe-backend, or a variable, names kernels that do not know the experts' weights, or not this GPU.",
    explanation=(
        "vLLM has a list of kernels for each kind of expert weights: unquantised, FP8, MXFP8, NVFP4, MXFP4, packed "
        "integers. `--moe-backend` is looked up in the list of the checkpoint's kind, so `triton` is fine for FP8 "
        "experts and unknown for NVFP4 ones. Then the kernels are asked whether they run on this GPU, with this "
        "activation, these scales and this parallel layout: TensorRT-LLM's need a Blackwell datacenter GPU, "
        "DeepGEMM's compute capability 9.0 or newer, CUTLASS's NVFP4 ones 10.0 or newer. vLLM does so while it builds "
        "the first layer with experts.\n\n"
        "Variables do the same where the option is absent: `VLLM_USE_DEEP_GEMM=1` for FP8 experts, "
        "`VLLM_ROCM_USE_AITER=1`, and until 0.23 `VLLM_USE_FLASHINFER_MOE_FP8`, `_FP4` and `_FP16`.\n\n"
        "Leave the option out unless you measured: vLLM then takes the first kernels of its own order that can."
    ),
    bad=Example(version="0.33.0", command="vllm serve Qwen/Qwen3-30B-A3B-FP8 --moe-backend emulation"),
    good=Example(version="0.33.0", command="vllm serve Qwen/Qwen3-30B-A3B-FP8 --moe-backend triton"),
    claims=(ExpertBackend,),
    check=check,
)
