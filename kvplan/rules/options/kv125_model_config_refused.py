"""KV125: a value in the model's config that vLLM cannot use."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.failures import ConfigValueRefused
from kvplan.engine.values import Plan
from kvplan.rules import words
from kvplan.rules.failures import indices, said
from kvplan.rules.rule import Advice, Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV125"


def check(plan: Plan) -> Iterator[Finding]:
    """One finding a value."""
    for error, facts in plan.failures(ConfigValueRefused):
        known = f"one of {', '.join(facts.accepted)}" if facts.accepted else "a value that vLLM takes"
        yield Finding(
            rule=CODE,
            severity=Severity.ERROR,
            message=(
                f"{words.release_name(plan)} cannot use {facts.field} {'null' if facts.value is None else facts.value} "
                f"of the model's config ({said(error)})"
            ),
            layers=indices(plan, facts),
            fix=f"correct {facts.field} in config.json: {known}",
        )


RULE = Rule(
    code=CODE,
    name="model-config-refused",
    severity=Severity.ERROR,
    summary="A value in the model's config.json is none that vLLM can use.",
    explanation=(
        "vLLM takes most of config.json on trust and fails where it uses a value: a dtype that torch does not have, a "
        "rope type or an activation that the release does not know, KV heads that do not divide the query heads, a "
        "quantisation section without a method. Some of these come from a newer Transformers or a newer vLLM, most "
        "from a config that was edited by hand.\n\n"
        "Correct the field; the message is vLLM's own. An override (`--hf-overrides`) that sets it does as well."
    ),
    bad=Example(
        version="0.33.0",
        command="vllm serve meta-llama/Llama-3.1-8B --hf-overrides '{\"num_key_value_heads\": 3}'",
    ),
    good=Example(
        version="0.33.0",
        command="vllm serve meta-llama/Llama-3.1-8B --hf-overrides '{\"num_key_value_heads\": 4}'",
    ),
    claims=(ConfigValueRefused,),
    check=check,
    advice=Advice.WHERE_NOTHING_WORKS,
)
