"""KV605: a figure for the cache that the GPU cannot give."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.facade import memory_budget
from kvplan.engine.values import Plan
from kvplan.rules import words
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV605"


def check(plan: Plan) -> Iterator[Finding]:
    """At most one finding, where the operator gave both the figure and the GPU."""
    given, budget, settings = plan.launch.available_kv_memory, memory_budget(plan), plan.settings
    if given is None or budget is None or settings is None or given <= budget:
        return
    memory = words.gib(plan.launch.hardware.memory_bytes)
    yield Finding(
        rule=CODE,
        severity=Severity.WARNING,
        message=(
            f"{words.gib(given)} for the cache is more than vLLM may use of {words.gpu_name(plan)} in all: "
            f"{words.gib(budget)}, --gpu-memory-utilization {settings.gpu_memory_utilization:g} of {memory}"
        ),
        options=("--available-kv-memory",),
        fix="give the figure of vLLM's log line `Available KV cache memory`: it is the memory of one GPU",
    )


RULE = Rule(
    code=CODE,
    name="more-memory-than-allowed",
    severity=Severity.WARNING,
    summary="The memory given for the cache is more than vLLM may use of the GPU.",
    explanation=(
        "vLLM takes at most `--gpu-memory-utilization` of a GPU's memory, and weights and activations come off that "
        "before the cache. A larger figure is a slip: the memory of several GPUs added up, another GPU, or GB for "
        "GiB. Blocks and tokens are computed from it all the same.\n\n"
        "`--available-kv-memory` is what one GPU has for the cache, as vLLM logs it at start-up."
    ),
    bad=Example(version="0.33.0", gpu="l4", available="160GiB", command="vllm serve meta-llama/Llama-3.1-8B"),
    good=Example(version="0.33.0", gpu="l4", available="4GiB", command="vllm serve Qwen/Qwen3-0.6B"),
    check=check,
)
