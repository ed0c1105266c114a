"""Findings with the changes that mend them, planned; whatever was not planned is not proposed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import islice

from kvplan.engine.values import Plan
from kvplan.rules import get, run
from kvplan.rules.rule import Advice
from kvplan.rules.values import Finding, Proposal, Severity
from kvplan.runs.fixes.search import Hunt, Judge, Search

SHOWN = 3
"""Proposals that a line of text has room for."""


def mended(plan: Plan, findings: Iterable[Finding], most: int | None = SHOWN) -> tuple[Finding, ...]:
    """The findings with at most `most` planned proposals each, None for all that were found.

    Errors are searched for with every lever; of other findings what their rule proposes is planned. A rule's own words
    stay where they are advice about something else than the launch's options.
    """
    told = tuple(findings)
    search = Search(plan)
    errors = frozenset(one.rule for one in told if one.severity is Severity.ERROR)
    return tuple(_mended(search, finding, errors, most) for finding in told)


def _mended(search: Search, finding: Finding, errors: frozenset[str], most: int | None) -> Finding:
    failing = finding.severity is Severity.ERROR
    advice = get(finding.rule).advice
    if advice is Advice.ALONE or not (failing or finding.changes):
        return finding
    hunt = Hunt(search, finding.rule, _judge(finding, errors))
    found = list(islice(hunt.of(finding.changes), most))
    if failing and (not found or most is None):
        known = {fix.words for fix in found}
        found += [fix for fix in islice(hunt.by_levers(), most) if fix.words not in known]
    proposals = tuple(Proposal(fix.words, fix.effect) for fix in found)
    told = replace(finding, fixes=proposals, attempts=hunt.attempts)
    if proposals:
        return replace(told, fix="; or ".join(one.text for one in proposals[:SHOWN]))
    return told if advice is Advice.WHERE_NOTHING_WORKS else replace(told, fix=None)


def _judge(finding: Finding, errors: frozenset[str]) -> Judge:
    """Against plans in which the rule still finds something as bad, or in which an error is that was not there."""
    others = errors - {finding.rule}

    def against(plan: Plan) -> tuple[str, ...]:
        found = run(plan)
        left = {one.rule for one in found if one.rule == finding.rule and one.severity.rank <= finding.severity.rank}
        left |= {one.rule for one in found if one.severity is Severity.ERROR} - others
        if left or others or plan.ok:
            return tuple(sorted(left))
        return ("an error that no rule explains",)

    return against
