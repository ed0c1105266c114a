"""KV401: attention heads that tensor parallelism cannot split evenly."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.failures import HeadsNotDivisible, KvHeadsNotDivisible, StateNotDivisible
from kvplan.engine.values import Plan
from kvplan.rules import words
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV401"
FLAG = "--tensor-parallel-size"


def check(plan: Plan) -> Iterator[Finding]:
    """One finding per failing check."""
    for _, whole in plan.failures(HeadsNotDivisible):
        yield _finding(plan, whole.heads, "attention heads", whole.tensor_parallel)
    for _, cached in plan.failures(KvHeadsNotDivisible):
        yield _finding(plan, cached.kv_heads, "KV heads", cached.tensor_parallel)
    for _, state in plan.failures(StateNotDivisible):
        yield _finding(plan, state.size, "state channels or heads", state.tensor_parallel)


def _finding(plan: Plan, heads: int, what: str, size: int) -> Finding:
    """Words for one failing check."""
    return Finding(
        rule=CODE,
        severity=Severity.ERROR,
        message=f"the model has {heads} {what}, which {FLAG} {size} does not divide",
        options=(FLAG,),
        fix=f"{FLAG} {_divisors(plan, heads)}",
    )


def _divisors(plan: Plan, heads: int) -> str:
    """The sizes that divide the heads, up to the GPUs there are."""
    most = plan.launch.hardware.count or 64
    return words.listed([str(size) for size in range(1, min(heads, most) + 1) if heads % size == 0], "or")


RULE = Rule(
    code=CODE,
    name="heads-not-divisible",
    severity=Severity.ERROR,
    summary="The tensor-parallel size does not divide the model's heads.",
    explanation=(
        "Tensor parallelism gives each rank the same number of attention heads: `--tensor-parallel-size` must "
        "divide their number. vLLM checks it while options are checked. KV heads may be fewer than ranks "
        "(they are replicated then, see KV402), but many models assert that one number divides the other, "
        "without a message.\n\n"
        "Choose a size that divides the heads."
    ),
    bad=Example(version="0.33.0", command="vllm serve meta-llama/Llama-3.1-8B -tp 3"),
    good=Example(version="0.33.0", command="vllm serve meta-llama/Llama-3.1-8B -tp 4"),
    claims=(HeadsNotDivisible, KvHeadsNotDivisible, StateNotDivisible),
    check=check,
)
