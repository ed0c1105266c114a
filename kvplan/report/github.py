"""Workflow commands of GitHub Actions: one annotation a finding, worst first, because GitHub shows ten of a kind."""

from __future__ import annotations

from kvplan.launch.locations import Location
from kvplan.report import outcomes
from kvplan.report.canvas import Canvas
from kvplan.report.inert import lines
from kvplan.report.outcomes import LostOutcome, Reported, Told
from kvplan.report.places import relative
from kvplan.report.words import printable
from kvplan.rules import get

_COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}


def render(report: Reported, _canvas: Canvas | None = None) -> str:
    """One command a line, and the sum in the last one, which is for the log."""
    told = sorted(outcomes.findings(outcomes.outcomes(report)), key=lambda one: one.finding.severity.rank)
    commands = [_finding(one) for one in told]
    commands += [_lost(one) for one in outcomes.lost(report)]
    commands.append(f"kvplan: {report.verdict}: {lines(outcomes.sum_of(report))}")
    return "".join(f"{command}\n" for command in commands)


def _finding(told: Told) -> str:
    finding = told.finding
    title = f"{finding.rule} {get(finding.rule).name}"
    message = f"{told.outcome.title}: {told.text}"
    return _command(_COMMANDS[str(finding.severity)], told.place, title, message)


def _lost(lost: LostOutcome) -> str:
    return _command(_COMMANDS[str(lost.severity)], lost.place, "not checked", lost.text)


def _command(name: str, place: Location | None, title: str, message: str) -> str:
    properties = {"title": title}
    if place is not None:
        properties = {"file": relative(place.file), "line": str(place.line), "col": str(place.column), **properties}
    given = ",".join(f"{key}={_property(value)}" for key, value in properties.items())
    return f"::{name} {given}::{_data(message)}"


def _data(text: str) -> str:
    """The text as the runner wants it: percent signs and line ends spelled out, other control characters shown."""
    return "%0A".join(lines(printable(line)).replace("%", "%25") for line in text.splitlines())


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
