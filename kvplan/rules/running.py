"""Run the rules over a plan: which ones, in which order the findings come, and what is filled in for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from difflib import get_close_matches

from kvplan.engine.values import Plan
from kvplan.errors import InputError
from kvplan.rules.options.refusals import location_of
from kvplan.rules.registry import FALLBACK, RULES
from kvplan.rules.rule import Rule
from kvplan.rules.values import Finding, Severity


def run(plan: Plan, *, select: Iterable[str] | None = None, ignore: Iterable[str] | None = None) -> tuple[Finding, ...]:
    """The findings of all rules, worst first, then by code and first layer.

    `select` and `ignore` take codes, beginnings of codes (`KV2`) and names; `ignore` wins. A plan whose start-up
    fails has at least one error among the findings unless these options take it away. Raises InputError for a
    selector that means no rule.
    """
    wanted = chosen(select) if select is not None else frozenset(rule.code for rule in RULES)
    unwanted = chosen(ignore) if ignore is not None else frozenset()
    found = [
        _completed(plan, rule, finding)
        for rule in RULES
        if rule.code in wanted - unwanted
        for finding in _findings(plan, rule)
    ]
    return tuple(sorted(dict.fromkeys(found), key=_order))


def run_pair(
    prefill: Plan, decode: Plan, *, select: Iterable[str] | None = None, ignore: Iterable[str] | None = None
) -> tuple[Finding, ...]:
    """What is wrong between two launches of which one fills the cache and the other reads it; told of the reader."""
    wanted = chosen(select) if select is not None else frozenset(rule.code for rule in RULES)
    unwanted = chosen(ignore) if ignore is not None else frozenset()
    found: list[Finding] = []
    for rule in RULES:
        if rule.pair is not None and rule.code in wanted - unwanted:
            for finding in rule.pair(prefill, decode):
                completed = _completed(decode, rule, finding)
                found.append(completed if completed.location else _completed(prefill, rule, finding))
    return tuple(sorted(dict.fromkeys(found), key=_order))


def regraded(findings: Iterable[Finding], severities: Mapping[str, Severity]) -> tuple[Finding, ...]:
    """The findings with the severities that the operator gives to rules, by code, worst first."""
    changed = [replace(one, severity=severities.get(one.rule, one.severity)) for one in findings]
    return tuple(sorted(changed, key=_order))


def rules() -> tuple[Rule, ...]:
    """All rules in the order of their codes."""
    return RULES


def get(code_or_name: str) -> Rule:
    """One rule by its code or name, in any case. Raises InputError, naming the nearest, where there is none."""
    wanted = code_or_name.strip().lower()
    for rule in RULES:
        if wanted in (rule.code.lower(), rule.name):
            return rule
    raise InputError(f"there is no rule {code_or_name[:80]!r}{_hint(wanted)}")


def _findings(plan: Plan, rule: Rule) -> Iterator[Finding]:
    """What one rule finds; the fallback speaks only where no rule for this release claims the error."""
    if not rule.applies(plan.release):
        return
    if rule is not FALLBACK:
        yield from rule.check(plan)
        return
    claimed = tuple({kind for other in RULES if other.applies(plan.release) for kind in other.claims})
    for error in plan.errors:
        if not isinstance(error.facts, claimed):
            yield from rule.check(replace(plan, error=error, later_errors=(), after_planning=()))


def _completed(plan: Plan, rule: Rule, finding: Finding) -> Finding:
    """The finding with the rule's references and the place of its first option, where it has none of its own."""
    location = finding.location
    for option in finding.options:
        location = location or location_of(plan.launch, option)
    return replace(finding, references=finding.references or rule.references, location=location)


def chosen(selectors: Iterable[str]) -> frozenset[str]:
    """The codes that selectors mean. Raises InputError, naming the nearest, for one that means no rule."""
    codes: set[str] = set()
    for selector in selectors:
        for part in selector.split(","):
            wanted = part.strip().lower()
            if not wanted:
                continue
            means = {rule.code for rule in RULES if rule.code.lower().startswith(wanted) or rule.name == wanted}
            if not means:
                raise InputError(f"there is no rule {part.strip()[:80]!r}{_hint(wanted)}")
            codes |= means
    return frozenset(codes)


def _hint(wanted: str) -> str:
    """`; did you mean …?`"""
    known = {word: rule for rule in RULES for word in (rule.code.lower(), rule.name)}
    near = get_close_matches(wanted[:80], known, n=3, cutoff=0.5)
    if not near:
        return "; `kvplan rules` lists them"
    shown = dict.fromkeys(f"{known[word].code} ({known[word].name})" for word in near)
    return f"; did you mean {' or '.join(shown)}?"


def _order(finding: Finding) -> tuple[int, str, int, str]:
    """Worst first, then code, then first layer; the message keeps equal ones apart."""
    return (finding.severity.rank, finding.rule, min(finding.layers, default=-1), finding.message)
