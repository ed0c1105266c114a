"""KV127: Transformers stands in for a class that a later release of vLLM brings."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.facade import brings_class_later, wraps_transformers
from kvplan.engine.values import Plan
from kvplan.launch.changing import Change
from kvplan.rules import words
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV127"


def check(plan: Plan) -> Iterator[Finding]:
    """At most one finding, where a later known release has a class of its own."""
    if plan.geometry is None or not wraps_transformers(plan.geometry.architecture):
        return
    if plan.launch.get("model_impl") == "transformers":
        return
    architecture = next(iter(plan.checkpoint.architectures), plan.checkpoint.model_type)
    later = brings_class_later(architecture, plan.release)
    if later is None:
        return
    yield Finding(
        rule=CODE,
        severity=Severity.WARNING,
        message=(
            f"{words.release_name(plan)} has no class for {architecture} and runs Transformers' code in its place; "
            f"vLLM {later} brings one"
        ),
        changes=(Change(release=later),),
    )


RULE = Rule(
    code=CODE,
    name="transformers-stands-in",
    severity=Severity.WARNING,
    summary="The release runs the model through Transformers; a later one has a class of its own for it.",
    explanation=(
        "For an architecture that is not in its registry vLLM falls back to Transformers' own code, wrapped in its "
        "attention. That is planned without the model's special caches, and a checkpoint whose modules are new may "
        "fail while its weights are loaded (`no module or parameter named …`).\n\n"
        "Where a release brings vLLM's own class, use it. `--model-impl transformers` asks for the fallback, and is "
        "not told about. Read from the registries of the releases, and a public report."
    ),
    bad=Example(
        version="0.17.1",
        command="vllm serve google/gemma-4-31B-it -tp 2",
    ),
    good=Example(version="0.33.0", command="vllm serve google/gemma-4-31B-it -tp 2"),
    references=("vllm#54062",),
    check=check,
)
