"""KV220: an fp8_e5m2 cache on a checkpoint that brings scales for another format."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.failures import E5m2WithScales
from kvplan.engine.values import Plan
from kvplan.rules import words
from kvplan.rules.failures import indices
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV220"
FLAG = "--kv-cache-dtype"


def check(plan: Plan) -> Iterator[Finding]:
    """At most one finding."""
    for _, facts in plan.failures(E5m2WithScales):
        yield Finding(
            rule=CODE,
            severity=Severity.ERROR,
            message=(
                f"{words.release_name(plan)} takes no {FLAG} fp8_e5m2 on a checkpoint quantised with {facts.method}"
            ),
            layers=indices(plan, facts),
            options=(FLAG,),
            fix=f"{FLAG} fp8 (e4m3), or {FLAG} auto",
        )


RULE = Rule(
    code=CODE,
    name="e5m2-with-quantised-checkpoint",
    severity=Severity.ERROR,
    summary="An fp8_e5m2 cache is refused on a checkpoint whose quantisation brings KV scales.",
    explanation=(
        "Quantisation methods that may carry KV cache scales (fp8, ModelOpt, Quark, compressed-tensors) load them "
        "for e4m3; the format e5m2 is used without scales, so vLLM refuses it with such checkpoints, whether or not "
        "they have scales. GPTQ, AWQ, mxfp4 and fbgemm_fp8 checkpoints, and MLA layers of any checkpoint but "
        "ModelOpt's, have no such check. From 0.24.0 on compressed-tensors checkpoints without a kv_cache_scheme "
        "are let through.\n\n"
        "Take `--kv-cache-dtype fp8`, which is e4m3 and has the same size."
    ),
    bad=Example(version="0.25.1", gpu="l40s", command="vllm serve Qwen/Qwen3-8B-FP8 --kv-cache-dtype fp8_e5m2"),
    good=Example(version="0.25.1", gpu="l40s", command="vllm serve Qwen/Qwen3-8B-FP8 --kv-cache-dtype fp8"),
    claims=(E5m2WithScales,),
    check=check,
)
