"""KV108: the parser refuses the command line for something else than one option or value."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.failures import RefusedOption
from kvplan.engine.values import Plan
from kvplan.rules import words
from kvplan.rules.options.refusals import RefusalKind, location_of, refusals
from kvplan.rules.rule import Advice, Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV108"


def check(plan: Plan) -> Iterator[Finding]:
    """One finding per refusal that is neither about an unknown option nor about a value."""
    for refusal in refusals(plan, RefusalKind.OTHER):
        yield Finding(
            rule=CODE,
            severity=Severity.ERROR,
            message=f"{words.release_name(plan)} refuses the command line: {words.one_line(refusal.message)}",
            options=() if refusal.option is None else (refusal.option,),
            location=refusal.location or location_of(plan.launch, refusal.option),
            fix=_fix(refusal.option, refusal.message.lower()),
        )


def _fix(option: str | None, text: str) -> str:
    """What to change, by what the parser said."""
    name = option or "the option"
    if "ambiguous" in text:
        return f"write the full name of {name}"
    if "expected" in text:
        return f"give {name} its value"
    if "not allowed with" in text or "mutually exclusive" in text:
        return f"keep only one of the options: drop {name} or the other"
    return f"correct or drop {name}"


RULE = Rule(
    code=CODE,
    advice=Advice.WHERE_NOTHING_WORKS,
    name="command-line-refused",
    severity=Severity.ERROR,
    summary="Options that exclude each other, an ambiguous abbreviation or a missing value.",
    explanation=(
        "Before anything is loaded vLLM's parser reads the command line. It stops with exit code 2 on an "
        "abbreviation that fits several options, an option without its value, and options that exclude each "
        "other. The server never starts, and an orchestrator restarts it for ever.\n\n"
        "The message quotes what the parser of this release says."
    ),
    bad=Example(version="0.33.0", command="vllm serve meta-llama/Llama-3.1-8B --kv-cache fp8"),
    good=Example(version="0.33.0", command="vllm serve meta-llama/Llama-3.1-8B --kv-cache-dtype fp8"),
    claims=(RefusedOption,),
    check=check,
)
