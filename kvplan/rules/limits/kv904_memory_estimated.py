"""KV904: the memory for the cache is an estimate."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.values import Plan
from kvplan.rules import words
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV904"


def check(plan: Plan) -> Iterator[Finding]:
    """At most one finding."""
    capacity = plan.capacity
    if capacity is not None and capacity.estimated and capacity.available_bytes is not None:
        yield Finding(
            rule=CODE,
            severity=Severity.NOTE,
            message=(
                f"{words.gib(max(0, capacity.available_bytes))} for the cache is an estimate from the "
                "GPU's memory and "
                "the size of the weights: blocks and tokens follow it"
            ),
            options=("--available-kv-memory",),
            fix="--available-kv-memory SIZE, from vLLM's log line `Available KV cache memory`",
        )


RULE = Rule(
    code=CODE,
    name="memory-estimated",
    severity=Severity.NOTE,
    summary="The memory for the cache is estimated, and capacity with it.",
    explanation=(
        "Without `--available-kv-memory` kvplan takes the GPU's memory times `--gpu-memory-utilization` and "
        "subtracts the weights of one rank and a reserve for activations and CUDA graphs. vLLM measures "
        "instead. Page sizes, block sizes and bytes per token do not depend on it.\n\n"
        "Give the figure from the log of a machine of the same kind."
    ),
    bad=Example(version="0.33.0", available=None, command="vllm serve GLM-5.2-FP8 -tp 8"),
    good=Example(version="0.33.0", command="vllm serve GLM-5.2-FP8 -tp 8"),
    check=check,
)
