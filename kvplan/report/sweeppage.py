"""A sweep as one HTML file: a bar and a row a combination, what is wrong with them, and what changes and why."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.report import htmlparts
from kvplan.report import sweepwords as words
from kvplan.report.canvas import Canvas
from kvplan.report.htmlparts import Bar, badge, chart, link, pairs, prose, table, text
from kvplan.report.sweepvalues import SweepReport
from kvplan.report.sweepwords import Alike, Alteration, Clause
from kvplan.rules import get
from kvplan.words import counted


def render(report: SweepReport, _canvas: Canvas | None = None) -> str:
    """The sweep as a whole page, ending in a newline."""
    return htmlparts.document(f"{words.models(report)}: {words.sum_of(report)}", _body(report))


def _body(report: SweepReport) -> Iterator[str]:
    yield f"<h1>{badge(str(report.verdict))} {text(words.models(report))}: {words.sum_of(report)}</h1>"
    if common := words.circumstances(report):
        yield f"<p>{text(common)}</p>"
    if drawn := words.meters(report):
        title, meters = drawn
        bars = [
            Bar(words.values(meter.row) or "all", meter.share, meter.text, "cache" if meter.starts else "other")
            for meter in meters
        ]
        yield f"<h2>{text(title)}</h2>{chart(bars)}"
    yield "<h2>Combinations</h2>"
    yield _table(report)
    if lost := words.problems(report):
        rows = [(words.among(report, rows), prose(problem)) for problem, rows in lost.items()]
        yield f"<h2>Not checked</h2>{pairs(rows)}"
    found = words.alike(report)
    if found:
        yield "<h2>Findings</h2>"
    for one in found:
        yield _finding(report, one)
    if report.steps is not None:
        yield "<h2>What changes</h2>"
        if not report.steps:
            yield f"<p>{prose(words.nothing_to_compare(report).capitalize())}.</p>"
        for alteration in words.alterations(report, report.steps):
            yield _alteration(alteration)
        if quiet := words.quiet(report.steps):
            yield f"<p>Nothing changes in {counted(quiet, 'other step')}.</p>"


def _table(report: SweepReport) -> str:
    columns = words.table(report)
    told = [[badge(cell) if name == "verdict" else text(cell) for cell in columns[name]] for name in columns]
    return table([words.heading(name) for name in columns], zip(*told, strict=True), words.NUMBERS)


def _finding(report: SweepReport, one: Alike) -> str:
    finding = one.finding
    rows = [("in", text(words.where(report, one)))] if report.axes else []
    if finding.fix:
        rows.append(("fix", prose(finding.fix)))
    if finding.references:
        rows.append(("see", ", ".join(map(link, finding.references))))
    return htmlparts.finding(finding, get(finding.rule).name, rows)


def _alteration(alteration: Alteration) -> str:
    parts = []
    for explanation, changes in alteration.changes.items():
        parts.append(pairs((words.LABELS[change.name], text(words.difference(change))) for change in changes))
        parts += [f'<p class="cause">{_clause(clause)}</p>' for clause in words.because(explanation)]
    beside = f"<p>{text(alteration.among)}</p>" if alteration.among else ""
    return f'<section class="card"><h3>{text(alteration.title)}</h3>{beside}{"".join(parts)}</section>'


def _clause(clause: Clause) -> str:
    beside = [] if clause.entry is None else [f"<code>{text(clause.entry)}</code>"]
    if clause.source is not None:
        beside.append(link(clause.source))
    return f"{prose(clause.text)} ({', '.join(beside)})" if beside else prose(clause.text)
