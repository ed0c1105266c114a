"""KV406: decode context parallelism that vLLM accepts, plans, and then stops on."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.facade import needs_one_group, returns_softmax_sums
from kvplan.engine.values import Plan
from kvplan.rules import words
from kvplan.rules.rule import Advice, Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV406"
FLAG = "--decode-context-parallel-size"


def check(plan: Plan) -> Iterator[Finding]:
    """One finding for the groups, one for each backend without softmax sums."""
    settings = plan.settings
    if settings is None or not plan.ok:
        return
    decode, prefill = settings.decode_context_parallel, settings.prefill_context_parallel
    if decode * prefill > 1 and len(plan.groups) > 1 and needs_one_group(plan.release):
        yield Finding(
            rule=CODE,
            severity=Severity.ERROR,
            message=(
                f"{words.release_name(plan)} plans {len(plan.groups)} KV cache groups and then stops: several groups "
                "do not support context parallelism there"
            ),
            options=(FLAG,),
            fix=f"drop {FLAG}, or use vLLM 0.26.0 or later",
        )
    if decode == 1:
        return
    for choice in plan.backends:
        if choice.backend is None or returns_softmax_sums(choice.backend, plan.release):
            continue
        yield Finding(
            rule=CODE,
            severity=Severity.ERROR,
            message=(
                f"{words.release_name(plan)} plans {words.layers(choice.layers)} with {choice.backend} and then stops: "
                "decode context parallelism needs the softmax sums, which that backend does not return"
            ),
            layers=choice.layers,
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
    check=check,
)
