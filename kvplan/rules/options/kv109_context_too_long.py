"""KV109: --max-model-len beyond what the model's config allows."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.failures import ContextTooLong
from kvplan.engine.values import Plan
from kvplan.rules import words
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV109"
FLAG = "--max-model-len"


def check(plan: Plan) -> Iterator[Finding]:
    """At most one finding."""
    for _, facts in plan.failures(ContextTooLong):
        yield Finding(
            rule=CODE,
            severity=Severity.ERROR,
            message=(
                f"{FLAG} {words.number(facts.asked)} is longer than the model's config allows: "
                f"{words.number(facts.derived)} tokens"
            ),
            options=(FLAG,),
            fix=(
                f"{FLAG} {facts.derived}; or set VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 if positions beyond that are known "
                "to work (else the output is wrong)"
            ),
        )


RULE = Rule(
    code=CODE,
    name="context-too-long",
    severity=Severity.ERROR,
    summary="--max-model-len is larger than the model's config allows.",
    explanation=(
        "vLLM derives the longest context from the model's config (position embeddings, RoPE scaling, sliding "
        "window when it is disabled). A longer `--max-model-len` is refused while options are checked, unless "
        "`VLLM_ALLOW_LONG_MAX_MODEL_LEN=1` is set. With it, positions the model never saw give NaN or "
        "nonsense for RoPE models and an out-of-range lookup for absolute position embeddings.\n\n"
        "Lower `--max-model-len`, or give the RoPE scaling the model was trained with by `--hf-overrides`."
    ),
    bad=Example(version="0.33.0", command="vllm serve google/gemma-2-9b --max-model-len 32768"),
    good=Example(version="0.33.0", command="vllm serve google/gemma-2-9b --max-model-len 8192"),
    claims=(ContextTooLong,),
    check=check,
)
