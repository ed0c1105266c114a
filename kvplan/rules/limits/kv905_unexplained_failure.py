"""KV905: start-up fails and no rule has words for it."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.values import Plan
from kvplan.rules import words
from kvplan.rules.failures import indices, said
from kvplan.rules.rule import Advice, Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV905"


def check(plan: Plan) -> Iterator[Finding]:
    """One finding per start-up error; `run` keeps those that no other rule claims."""
    for error in plan.errors:
        yield Finding(
            rule=CODE,
            severity=Severity.ERROR,
            message=f"{words.release_name(plan)} stops in stage {error.stage.value}: {said(error)}",
            layers=indices(plan, error.facts),
            fix="follow the message, which is vLLM's own; `kvplan why` shows what was decided up to there",
        )


RULE = Rule(
    code=CODE,
    advice=Advice.ALONE,
    name="unexplained-failure",
    severity=Severity.ERROR,
    summary="Start-up fails, and kvplan has no better words for it than vLLM.",
    explanation=(
        "The emulated start-up stops at a check for which there is no rule of its own. The message is the one "
        "vLLM prints, and the stage tells where.\n\n"
        "This rule makes sure that a launch that does not start never passes as fine."
    ),
    bad=Example(version="0.31.0", command="vllm serve facebook/bart-base"),
    good=Example(version="0.33.0", command="vllm serve meta-llama/Llama-3.1-8B"),
    check=check,
)
