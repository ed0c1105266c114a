"""KV110: the release does not know the model's architecture."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.failures import ConfigNotRead, UnknownArchitecture
from kvplan.engine.values import Plan
from kvplan.rules import words
from kvplan.rules.failures import said
from kvplan.rules.options.availability import span, with_architecture
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV110"


def check(plan: Plan) -> Iterator[Finding]:
    """One finding for the architecture, one for a config that the release has no class for."""
    for _ in plan.failures(UnknownArchitecture):
        architectures = words.listed(plan.checkpoint.architectures, "or") or plan.checkpoint.model_type
        elsewhere = with_architecture(plan.checkpoint)
        known = f": releases {span(elsewhere)} do" if elsewhere else ", nor does any known release"
        fix = "use one of these releases" if elsewhere else "use a plugin or another engine for it"
        yield Finding(
            rule=CODE,
            severity=Severity.ERROR,
            message=f"{words.release_name(plan)} does not support the architecture {architectures}{known}",
            fix=fix,
        )
    for error, facts in plan.failures(ConfigNotRead):
        since = facts.since
        yield Finding(
            rule=CODE,
            severity=Severity.ERROR,
            message=f"{words.release_name(plan)} cannot read the model's {facts.field} ({said(error)})",
            fix=f"use vLLM {since} or later" if since else "correct the field in the model's config.json",
        )


RULE = Rule(
    code=CODE,
    name="architecture-not-in-release",
    severity=Severity.ERROR,
    summary="The model's architecture is not in this release.",
    explanation=(
        "vLLM looks the `architectures` of config.json up in its registry of models. Releases add "
        "architectures, and take old ones out again; a name that is not there, and that the Transformers "
        "backend cannot run either, is refused while options are checked. So is a config that only a later "
        "release has a class for.\n\n"
        "`kvplan models` lists what is known; otherwise choose another release."
    ),
    bad=Example(version="0.16.0", command="vllm serve Qwen/Qwen3.5-35B-A3B"),
    good=Example(version="0.33.0", command="vllm serve Qwen/Qwen3-30B-A3B"),
    claims=(UnknownArchitecture, ConfigNotRead),
    check=check,
)
