"""KV401: attention heads that tensor parallelism cannot split evenly."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.values import Plan, StartupError
from kvplan.rules import words
from kvplan.rules.failures import errors, said, whole
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV401"
FLAG = "--tensor-parallel-size"


def check(plan: Plan) -> Iterator[Finding]:
    """One finding per failing check."""
    for error in errors(plan, "heads_not_divisible", "kv_heads_not_divisible", "state_not_divisible"):
        size = whole(error, "tensor_parallel") or plan.launch.get("tensor_parallel_size")
        if error.code == "heads_not_divisible":
            heads = whole(error, "heads") or (plan.geometry.total_heads if plan.geometry else None)
            what = "attention heads"
        elif error.code == "state_not_divisible":
            heads = whole(error, "size")
            what = "state channels or heads"
        else:
            heads = whole(error, "kv_heads") or (plan.geometry.total_kv_heads if plan.geometry else None)
            what = "KV heads"
        yield _finding(plan, error, heads, what, size)


def _finding(plan: Plan, error: StartupError, heads: int | None, what: str, size: object) -> Finding:
    """Words for one failing check."""
    if heads is None or not isinstance(size, int):
        message = f"{words.release_name(plan)} cannot split the model's {what} ({said(error)})"
        fix = f"choose a {FLAG} that divides the number of {what}"
    else:
        message = f"the model has {heads} {what}, which {FLAG} {size} does not divide"
        fix = f"{FLAG} {_divisors(plan, heads)}"
    return Finding(rule=CODE, severity=Severity.ERROR, message=message, options=(FLAG,), fix=fix)


def _divisors(plan: Plan, heads: int) -> str:
    """The sizes that divide the heads, up to the GPUs there are."""
    most = plan.launch.hardware.count or 64
    return words.either([str(size) for size in range(1, min(heads, most) + 1) if heads % size == 0])


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
    claims=("heads_not_divisible", "kv_heads_not_divisible", "state_not_divisible"),
    check=check,
)
