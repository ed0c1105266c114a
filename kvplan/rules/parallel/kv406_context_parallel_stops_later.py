"""KV406: decode context parallelism that vLLM accepts, plans, and then stops on."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.failures import SeveralGroups, SoftmaxSumsMissing
from kvplan.engine.values import Plan
from kvplan.rules import words
from kvplan.rules.rule import Advice, Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV406"
FLAG = "--decode-context-parallel-size"


def check(plan: Plan) -> Iterator[Finding]:
    """One finding for the groups, one for each backend without softmax sums."""
    for _, several in plan.failures(SeveralGroups):
        yield Finding(
            rule=CODE,
            severity=Severity.ERROR,
            message=(
                f"{words.release_name(plan)} plans {several.groups} KV cache groups and then stops: several groups "
                "do not support context parallelism there"
            ),
            options=(FLAG,),
            fix=f"drop {FLAG}, or use vLLM 0.26.0 or later",
        )
    for _, sums in plan.failures(SoftmaxSumsMissing):
        yield Finding(
            rule=CODE,
            severity=Severity.ERROR,
            message=(
                f"{words.release_name(plan)} plans {words.layers(sums.layers)} with {sums.backend} and then stops: "
                "decode context parallelism needs the softmax sums, which that backend does not return"
            ),
            layers=sums.layers,
            options=(FLAG,),
            fix=f"choose another --attention-backend, or drop {FLAG}",
        )


RULE = Rule(
    code=CODE,
    advice=Advice.WHERE_NOTHING_WORKS,
    name="context-parallel-stops-later",
    severity=Severity.ERROR,
    summary="Context parallelism passes planning and stops the engine afterwards.",
    explanation=(
        "Two checks come after the KV cache is planned. From 0.20.2 to 0.25.1 the engine core refuses context "
        "parallelism with more than one KV cache group. And each rank's share of a decode step can only be put "
        "together if the attention kernel returns the sums of its softmax; backends that do not make the worker stop "
        "with an assertion (FlashMLA's sparse kernels before 0.29.0, for one). From 0.30.0 on such backends are "
        "not selected at all.\n\n"
        "Drop `--decode-context-parallel-size`, take another backend, or a later release."
    ),
    bad=Example(version="0.25.1", command="vllm serve deepseek-ai/DeepSeek-V3.2 -tp 8 -dcp 8"),
    good=Example(version="0.29.0", command="vllm serve deepseek-ai/DeepSeek-V3.2 -tp 8 -dcp 8 --kv-cache-dtype fp8"),
    claims=(SeveralGroups, SoftmaxSumsMissing),
    check=check,
)
