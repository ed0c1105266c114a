"""KV310: the GPU is too old for the quantisation method."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.failures import QuantisationCapability
from kvplan.engine.values import Plan
from kvplan.rules import words
from kvplan.rules.rule import Advice, Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV310"


def check(plan: Plan) -> Iterator[Finding]:
    """At most one finding."""
    for _, facts in plan.failures(QuantisationCapability):
        least = f"{facts.needed // 10}.{facts.needed % 10}"
        yield Finding(
            rule=CODE,
            severity=Severity.ERROR,
            message=(
                f"quantisation method {facts.method} needs compute capability {least}, and "
                f"{words.gpu_name(plan)} has less"
            ),
            options=("--gpu",),
            fix=f"use a GPU of compute capability {least} or higher, or a checkpoint quantised another way",
        )


RULE = Rule(
    code=CODE,
    advice=Advice.WHERE_NOTHING_WORKS,
    name="quantisation-needs-newer-gpu",
    severity=Severity.ERROR,
    summary="The GPU is too old for the checkpoint's quantisation method.",
    explanation=(
        "Every quantisation method has a least compute capability, which vLLM checks before it loads weights: 7.5 "
        "for fp8, AWQ and ModelOpt's NVFP4, 8.0 for mxfp4 and fbgemm_fp8, 8.9 for ModelOpt's FP8 through 0.26.0 "
        "(8.0 from 0.27.1 on), 10.0 for fp_quant. Some bounds fell as slower kernels for older GPUs were added.\n\n"
        "Use a newer GPU, a release with a lower bound, or the unquantised checkpoint."
    ),
    bad=Example(version="0.25.1", gpu="a100", command="vllm serve nvidia/Llama-3.1-70B-Instruct-FP8 -tp 4"),
    good=Example(version="0.33.0", gpu="a100", command="vllm serve nvidia/Llama-3.1-70B-Instruct-FP8 -tp 4"),
    claims=(QuantisationCapability,),
    check=check,
)
