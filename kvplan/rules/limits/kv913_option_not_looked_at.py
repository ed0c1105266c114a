"""KV913: an option that vLLM reads and kvplan does not follow."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.values import Plan
from kvplan.launch.lookedat import not_looked_at
from kvplan.rules import words
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV913"


def check(plan: Plan) -> Iterator[Finding]:
    """One finding per option."""
    for unread in not_looked_at(plan.launch):
        yield Finding(
            rule=CODE,
            severity=Severity.NOTE,
            message=f"{unread.option} is not looked at ({unread.why}): {words.release_name(plan)} may refuse it or "
            "come to other figures",
            options=(unread.option.partition(".")[0],),
            location=unread.location,
            fix=f"start vLLM once with {unread.option} and compare its log, or leave it out",
        )


RULE = Rule(
    code=CODE,
    name="option-not-looked-at",
    severity=Severity.NOTE,
    summary="An option that vLLM reads and kvplan does not follow.",
    explanation=(
        "kvplan follows every option that touches the cache, its memory, the layers, their backends and the ranks. Of "
        "the others most have no part in that: the API server's, logging, tokenizers. The few between are named where "
        "they are given: classes from outside vLLM, loaders and kernels that a layer may refuse when it is built, "
        "another revision of the model. What they do is left out of the plan, so that it is not exact.\n\n"
        "An option that is given the value it has anyway is not named."
    ),
    bad=Example(version="0.33.0", command="vllm serve meta-llama/Llama-3.1-8B --linear-backend cutlass"),
    good=Example(version="0.33.0", command="vllm serve meta-llama/Llama-3.1-8B --linear-backend auto"),
    check=check,
)
