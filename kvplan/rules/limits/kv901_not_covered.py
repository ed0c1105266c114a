"""KV901: no answer of vLLM itself covers this architecture and release."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.facade import is_covered
from kvplan.engine.values import Plan
from kvplan.rules import words
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV901"


def check(plan: Plan) -> Iterator[Finding]:
    """At most one finding."""
    if plan.layers and not all(layer.covered for layer in plan.layers):
        architecture = words.listed(plan.checkpoint.architectures, "or") or plan.checkpoint.model_type
        general = plan.geometry is not None and plan.geometry.by_general_rule
        if plan.geometry is not None and plan.settings is not None and is_covered(plan.geometry, plan.release):
            architecture, general = f"the draft {plan.settings.draft_architecture}", False
        why = "known by the general rule only" if general else "not among the records kvplan is tested with"
        yield Finding(
            rule=CODE,
            severity=Severity.NOTE,
            message=(f"{architecture} is {why} for {words.release_name(plan)}: its numbers are derived, not confirmed"),
            fix="compare with the log of one start of vLLM before you rely on them",
        )


RULE = Rule(
    code=CODE,
    name="not-covered",
    severity=Severity.NOTE,
    summary="The numbers follow from rules; no answer of vLLM confirms them for this architecture and release.",
    explanation=(
        "kvplan is tested against what vLLM's own start-up code computed for many models and releases. For an "
        "architecture or release outside of these records it applies the same rules, but nobody compared the "
        "result. Such reports carry this note.\n\n"
        "`kvplan models` lists what is covered."
    ),
    bad=Example(version="0.33.0", command="vllm serve microsoft/Phi-3.5-vision-instruct --trust-remote-code"),
    good=Example(version="0.33.0", command="vllm serve Qwen/Qwen3-32B"),
    check=check,
)
