"""KV902: a release newer than kvplan knows."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.values import Plan
from kvplan.rules import words
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV902"


def check(plan: Plan) -> Iterator[Finding]:
    """At most one finding."""
    if plan.release.beyond_known:
        yield Finding(
            rule=CODE,
            severity=Severity.NOTE,
            message=(
                f"{words.release_name(plan)} is newer than kvplan knows: it is taken to behave like "
                f"{plan.release.acts_as}"
            ),
            options=("--vllm-version",),
            fix="upgrade kvplan, or compare with the log of one start",
        )


RULE = Rule(
    code=CODE,
    name="release-beyond-known",
    severity=Severity.NOTE,
    summary="The release is newer than kvplan knows and is treated as the newest known one.",
    explanation=(
        "Each release changes something about the cache. kvplan treats an unknown newer release as the newest "
        "one it knows; options, defaults and sizes may have changed since.\n\n"
        "`kvplan releases` lists the known releases and what changed with each."
    ),
    bad=Example(version="0.99.0", command="vllm serve meta-llama/Llama-3.1-8B"),
    good=Example(version="0.33.0", command="vllm serve meta-llama/Llama-3.1-8B"),
    check=check,
)
