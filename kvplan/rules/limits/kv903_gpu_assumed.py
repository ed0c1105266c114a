"""KV903: no GPU was given."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.values import Plan
from kvplan.rules import words
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV903"


def check(plan: Plan) -> Iterator[Finding]:
    """At most one finding."""
    if plan.launch.hardware.assumed:
        yield Finding(
            rule=CODE,
            severity=Severity.NOTE,
            message=f"no GPU is given: {words.gpu_name(plan)} is assumed, which decides backends and cache dtypes",
            options=("--gpu",),
            fix="--gpu NAME, such as h100, b200, l40s, or a compute capability such as sm_90",
        )


RULE = Rule(
    code=CODE,
    name="gpu-assumed",
    severity=Severity.NOTE,
    summary="No GPU is given, so one is assumed.",
    explanation=(
        "The compute capability decides which attention backends exist, which cache dtypes they take, the "
        "block size and, for some models, what `auto` means. The GPU's memory decides vLLM's defaults for "
        "batched tokens and sequences, which the reserve of sliding-window layers follows. Without `--gpu` "
        "kvplan assumes an H200.\n\n"
        "Give the GPU of the deployment."
    ),
    bad=Example(version="0.33.0", gpu=None, command="vllm serve meta-llama/Llama-3.1-8B"),
    good=Example(version="0.33.0", gpu="h200", command="vllm serve meta-llama/Llama-3.1-8B"),
    check=check,
)
