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
    if capacity is None or capacity.estimate is None or not capacity.available_bytes:
        return
    estimate = capacity.estimate
    weights = words.gib(estimate.weight_bytes or 0)
    yield Finding(
        rule=CODE,
        severity=Severity.NOTE,
        message=(
            f"the memory for the cache is an estimate, on the high side: {words.gib(estimate.budget_bytes)} that vLLM "
            f"may use of {words.gpu_name(plan)}, less {weights} for the weights; activations and CUDA graphs will "
            "leave less of it, and fewer blocks and tokens"
        ),
        options=("--available-kv-memory", "--gpu-memory-utilization"),
        fix="--available-kv-memory SIZE, from vLLM's log line `Available KV cache memory`",
    )


RULE = Rule(
    code=CODE,
    name="memory-estimated",
    severity=Severity.NOTE,
    summary="The memory for the cache is estimated, and capacity with it.",
    explanation=(
        "Where the GPU is named and the size of the weights is known (from the files of a local directory, from the "
        "Hub, or from `--weights`), but not the memory that is left, kvplan takes the GPU's memory times "
        "`--gpu-memory-utilization` and takes off the weights of one GPU. vLLM also takes off the peak of a forward "
        "pass and the CUDA graphs, which only a run on the GPU can tell. So blocks, tokens, concurrency and the "
        "longest request are told as the most that there can be: what does not fit into them does not fit. Page "
        "sizes, block sizes and bytes per token do not depend on it.\n\n"
        "Give the figure from the log of a machine of the same kind: `--available-kv-memory`."
    ),
    bad=Example(
        version="0.33.0",
        gpu="h100",
        available=None,
        weights="15GiB",
        command="vllm serve meta-llama/Llama-3.1-8B",
    ),
    good=Example(version="0.33.0", gpu="h100", command="vllm serve meta-llama/Llama-3.1-8B"),
    check=check,
)
