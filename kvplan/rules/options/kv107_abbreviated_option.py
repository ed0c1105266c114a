"""KV107: an option spelled shorter than its name."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.values import Plan
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV107"


def check(plan: Plan) -> Iterator[Finding]:
    """One finding per abbreviation."""
    for remark in plan.launch.remarks:
        if remark.kind == "abbreviated_option":
            yield Finding(
                rule=CODE,
                severity=Severity.NOTE,
                message=f"{remark.option} is abbreviated: {remark.detail}",
                options=(remark.option,),
                location=remark.location,
                fix=(f"write {remark.option} in full: an option of a later release can make the short form ambiguous"),
            )


RULE = Rule(
    code=CODE,
    name="abbreviated-option",
    severity=Severity.NOTE,
    summary="An option is abbreviated; it works until a release adds an option that begins alike.",
    explanation=(
        "vLLM's parser accepts the beginning of an option's name as long as only one option begins so. Every "
        "release adds options: what is unambiguous today can be refused after an upgrade. "
        "`--kv-cache-dtype-skip` is one option; `--kv-cache` begins several.\n\n"
        "Write the whole name."
    ),
    bad=Example(version="0.33.0", command="vllm serve meta-llama/Llama-3.1-8B --kv-cache-dtype fp8 --max-model 8192"),
    good=Example(
        version="0.33.0", command="vllm serve meta-llama/Llama-3.1-8B --kv-cache-dtype fp8 --max-model-len 8192"
    ),
    check=check,
)
