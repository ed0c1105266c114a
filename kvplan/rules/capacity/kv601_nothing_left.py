"""KV601: no memory is left for the cache."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.failures import NoMemory
from kvplan.engine.values import MemoryEstimate, Plan
from kvplan.rules import words
from kvplan.rules.rule import Advice, Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV601"


def check(plan: Plan) -> Iterator[Finding]:
    """At most one finding."""
    for _, facts in plan.failures(NoMemory):
        available = facts.available_bytes
        if available is None and plan.capacity is not None:
            available = plan.capacity.available_bytes
        if plan.capacity is not None and plan.capacity.estimate is not None:
            yield _too_heavy(plan, plan.capacity.estimate)
            continue
        left = "nothing" if available is None or available <= 0 else words.gib(available)
        needed = ", less than one block" if available is not None and available > 0 else ""
        yield Finding(
            rule=CODE,
            severity=Severity.ERROR,
            message=f"the KV cache gets {left} on {words.gpu_name(plan)}{needed}",
            options=("--gpu-memory-utilization",),
            fix=(
                "raise --gpu-memory-utilization or --tensor-parallel-size, lower "
                "--max-num-batched-tokens, or take a "
                "larger GPU"
            ),
        )


def _too_heavy(plan: Plan, estimate: MemoryEstimate) -> Finding:
    weights, budget = words.gib(estimate.weight_bytes or 0), words.gib(estimate.budget_bytes)
    return Finding(
        rule=CODE,
        severity=Severity.ERROR,
        message=f"the weights take {weights} of each GPU, and vLLM may use {budget} of {words.gpu_name(plan)}",
        options=("--gpu-memory-utilization", "--tensor-parallel-size"),
        fix="raise --tensor-parallel-size, take a larger GPU or a quantised checkpoint",
    )


RULE = Rule(
    code=CODE,
    advice=Advice.WHERE_NOTHING_WORKS,
    name="nothing-left",
    severity=Severity.ERROR,
    summary="Weights and activations leave no memory for the cache.",
    explanation=(
        "vLLM may use `--gpu-memory-utilization` of the GPU (0.9 through 0.19.1, 0.92 from 0.20.2 on). "
        "Weights, the peak of a forward pass and, from 0.20.2 on, an estimate for CUDA graphs are taken off; "
        "the rest is the cache. When nothing is left start-up stops with `No available memory for the cache "
        "blocks`.\n\n"
        "Spread the weights over more GPUs, raise the utilisation, or lower `--max-num-batched-tokens`, which "
        "decides the peak of a forward pass."
    ),
    bad=Example(version="0.33.0", available="1MiB", command="vllm serve meta-llama/Llama-3.1-8B"),
    good=Example(version="0.33.0", command="vllm serve meta-llama/Llama-3.1-8B"),
    claims=(NoMemory,),
    check=check,
)
