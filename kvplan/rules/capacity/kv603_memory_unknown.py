"""KV603: the memory for the cache is not known, so nothing was said about capacity."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.values import Plan
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV603"


def check(plan: Plan) -> Iterator[Finding]:
    """At most one finding, for launches that get as far as capacity."""
    if plan.capacity is not None and plan.capacity.available_bytes is None and plan.layers:
        yield Finding(
            rule=CODE,
            severity=Severity.NOTE,
            message=(
                "the memory for the cache is unknown, so blocks, tokens and whether the longest request "
                "fits were not "
                "checked"
            ),
            options=("--available-kv-memory",),
            fix=(
                "--available-kv-memory SIZE: the figure of vLLM's log line `Available KV cache memory` "
                "on such a machine"
            ),
        )


RULE = Rule(
    code=CODE,
    name="memory-unknown",
    severity=Severity.NOTE,
    summary="Capacity was not checked: the memory for the cache is unknown.",
    explanation=(
        "How much memory is left for the cache depends on weights, activations and CUDA graphs, which vLLM "
        "measures on the GPU. kvplan takes the figure from `--available-kv-memory` or `--kv-cache-memory-bytes`, or "
        "an upper bound where the GPU is named and the size of the weights is known (KV904). "
        "Everything but capacity is exact without it.\n\n"
        "Take the figure from the log of a machine of the same kind: `Available KV cache memory: … GiB`."
    ),
    bad=Example(version="0.33.0", available=None, command="vllm serve openai/gpt-oss-120b"),
    good=Example(version="0.33.0", command="vllm serve openai/gpt-oss-120b"),
    check=check,
)
