"""KV101: a value that this release does not accept."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.failures import InvalidValue, RefusedOption
from kvplan.engine.values import Plan
from kvplan.launch.changing import Change
from kvplan.launch.locations import Location
from kvplan.rules import words
from kvplan.rules.options.availability import accepted, common, nearest, span, with_value
from kvplan.rules.options.refusals import RefusalKind, location_of, refusals
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV101"
QUOTE = "'"


def check(plan: Plan) -> Iterator[Finding]:
    """One finding per refused value, by the parser or by the config check behind it."""
    for refusal in refusals(plan, RefusalKind.VALUE):
        yield _finding(plan, refusal.option, refusal.message, refusal.location)
    for error, facts in plan.failures(InvalidValue):
        yield _finding(plan, facts.option, error.message, None)


def _finding(plan: Plan, option: str | None, message: str, location: Location | None) -> Finding:
    """Words for one refused value."""
    name = "" if option is None else option.lstrip("-").replace("-", "_")
    flag = "" if option is None else "--" + name.replace("_", "-")
    value = _value(plan, name, message)
    listed = accepted(name, plan.release)
    if value is None or not listed or value in listed:
        return Finding(
            rule=CODE,
            severity=Severity.ERROR,
            message=f"{words.release_name(plan)} refuses {_of(flag, value)}: {words.one_line(message)}",
            options=(flag,) if flag else (),
            location=location or location_of(plan.launch, option),
            fix=_correct(flag, value),
        )
    elsewhere = with_value(name, value)
    known = f"releases {span(elsewhere)} have it" if elsewhere else "no known release has it"
    close = nearest(value, listed)
    others = f"one of {', '.join(common(name, plan.release))}"
    fix = f"{flag} {close}" if close is not None else f"{flag} with {others}"
    if elsewhere:
        fix = f"use a release that has it, or {flag} with {others}"
    return Finding(
        rule=CODE,
        severity=Severity.ERROR,
        message=f"{words.release_name(plan)} does not know {flag} {value}: {known}",
        options=(flag,),
        location=location or location_of(plan.launch, option),
        fix=fix,
        changes=() if close is None else (Change(values=((name, close),)),),
    )


def _value(plan: Plan, name: str, message: str) -> str | None:
    """The refused value: from the launch, else the first thing quoted in the parser's message."""
    value = plan.launch.get(name)
    if isinstance(value, str):
        return value
    parts = message.split(QUOTE)
    return parts[1] if len(parts) > 2 else None


def _correct(flag: str, value: str | None) -> str:
    """What to do about a value that the release lists, or that no list covers."""
    if flag == "--kv-cache-dtype" and value is not None:
        return f"{flag} auto, or {flag} fp8" if value != "fp8" else f"{flag} auto"
    return f"give {flag} a value it accepts" if flag else "correct the value"


def _of(flag: str, value: str | None) -> str:
    if not flag:
        return "a value"
    return flag if value is None else f"{flag} {value}"


RULE = Rule(
    code=CODE,
    name="value-not-accepted",
    severity=Severity.ERROR,
    summary="A value that this release does not accept.",
    explanation=(
        "The values of `--kv-cache-dtype` and other choices grow with the releases: int8_per_token_head and "
        "nvfp4 came with 0.20.2, nvfp4_ds_mla with 0.30.0, float16 with 0.18.1. Through 0.32.0 the parser "
        "refuses an unknown cache dtype with exit code 2 and the list of choices; 0.33.0 accepts any word and "
        "refuses it a moment later in the config check. Values that no release has, or that are out of range, "
        "end the same way.\n\n"
        "The message says which releases have the value. Otherwise choose one of the values listed in the "
        "fix."
    ),
    bad=Example(version="0.19.1", command="vllm serve meta-llama/Llama-3.1-8B --kv-cache-dtype int8_per_token_head"),
    good=Example(version="0.19.1", command="vllm serve meta-llama/Llama-3.1-8B --kv-cache-dtype fp8"),
    claims=(RefusedOption, InvalidValue),
    check=check,
)
