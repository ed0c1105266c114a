"""KV403: decode or prefill context parallelism that vLLM refuses."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.failures import ContextParallelRefused, SlidingWindowDivided
from kvplan.engine.values import Plan, StartupError
from kvplan.rules import words
from kvplan.rules.failures import indices, said
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV403"
FLAG = "--decode-context-parallel-size"


def check(plan: Plan) -> Iterator[Finding]:
    """One finding per failing check."""
    for error, facts in plan.failures(ContextParallelRefused):
        yield Finding(
            rule=CODE,
            severity=Severity.ERROR,
            message=f"{words.release_name(plan)} refuses this context parallelism ({said(error)})",
            layers=indices(plan, facts),
            options=(FLAG,),
            fix=_fix(plan, facts.max_dcp),
        )
    for error, _ in plan.failures(SlidingWindowDivided):
        yield _sliding(plan, error)


def _sliding(plan: Plan, error: StartupError) -> Finding:
    """Words for sliding windows under decode context parallelism."""
    concerned = tuple(layer.index for layer in plan.layers if layer.sliding_window)
    where = words.layers(concerned) if concerned else "some layers"
    return Finding(
        rule=CODE,
        severity=Severity.ERROR,
        message=(
            f"{where}: a sliding-window cache cannot be divided by {FLAG} in {words.release_name(plan)} ({said(error)})"
        ),
        layers=concerned,
        options=(FLAG,),
        fix=f"drop {FLAG}",
    )


def _fix(plan: Plan, largest: int | None) -> str:
    """The largest size that passes, where the engine knows it."""
    heads = plan.geometry.total_kv_heads if plan.geometry else None
    if largest is not None and largest > 1:
        return f"{FLAG} {largest} at most"
    if heads is not None and plan.geometry is not None and not plan.geometry.use_mla:
        return f"drop {FLAG}, or raise --tensor-parallel-size above the {words.counted(heads, 'KV head')}"
    return f"drop {FLAG}"


RULE = Rule(
    code=CODE,
    name="context-parallel-impossible",
    severity=Severity.ERROR,
    summary="Context parallelism that this model, size or release does not allow.",
    explanation=(
        "Decode context parallelism divides the cache by tokens among ranks that would otherwise hold the same KV "
        "heads. So the tensor-parallel size must be divisible by it, and for models with KV heads it can be at most "
        "tensor-parallel size divided by KV heads; MLA is free of the second rule. Sliding-window layers cannot be "
        "divided (through 0.30.0 not at all). Through 0.26.0 these are bare assertions, afterwards errors with a "
        "text.\n\n"
        "Lower `--decode-context-parallel-size`, or raise `--tensor-parallel-size`."
    ),
    bad=Example(version="0.33.0", command="vllm serve Qwen/Qwen3-30B-A3B -tp 8 -dcp 8"),
    good=Example(version="0.33.0", command="vllm serve Qwen/Qwen3-30B-A3B -tp 8 -dcp 2"),
    claims=(ContextParallelRefused, SlidingWindowDivided),
    check=check,
)
