"""GitLab's code quality report: a JSON array with one issue a finding."""

from __future__ import annotations

from collections import Counter

from kvplan.report import outcomes
from kvplan.report.canvas import Canvas
from kvplan.report.fieldwise import JsonObject
from kvplan.report.inert import dumps
from kvplan.report.outcomes import LostOutcome, Reported, Told
from kvplan.report.places import relative
from kvplan.rules import get

_SEVERITIES = {"error": "critical", "warning": "major", "note": "info"}


def render(report: Reported, _canvas: Canvas | None = None) -> str:
    """The array as JSON text, with a newline at its end."""
    issues = [_finding(told) for told in outcomes.findings(outcomes.outcomes(report))]
    seen: Counter[tuple[str, ...]] = Counter()
    for lost in outcomes.lost(report):
        issues.append(_lost(lost, outcomes.fingerprint(*lost.identity, str(seen[lost.identity]))))
        seen[lost.identity] += 1
    return dumps(issues, indent=2) + "\n"


def _finding(told: Told) -> JsonObject:
    """An issue. GitLab wants a path whatever happens: a launch without a file has its model's."""
    finding = told.finding
    path = told.outcome.subject if told.place is None else told.place.file
    return {
        "description": f"{finding.rule}: {told.full_text}",
        "check_name": f"{finding.rule} {get(finding.rule).name}",
        "fingerprint": told.fingerprint,
        "severity": _SEVERITIES[str(finding.severity)],
        "location": _location(path, 1 if told.place is None else told.place.line),
        "content": {"body": get(finding.rule).explanation},
    }


def _lost(lost: LostOutcome, fingerprint: str) -> JsonObject:
    place = lost.location
    return {
        "description": f"not checked: {lost.reason if place is not None else lost.text}",
        "check_name": lost.identity[0],
        "fingerprint": fingerprint,
        "severity": _SEVERITIES[str(lost.severity)],
        "location": _location(lost.subject, 1 if place is None else place.line),
    }


def _location(file: str, line: int) -> JsonObject:
    return {"path": relative(file), "lines": {"begin": max(line, 1)}}
