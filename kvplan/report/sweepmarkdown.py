"""A sweep as Markdown: the table of its combinations, what is wrong with them, and what changes and why."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.report import documentation, outcomes
from kvplan.report import sweepwords as words
from kvplan.report.canvas import Canvas
from kvplan.report.markup import escaped, fitting, link, tables
from kvplan.report.sweepvalues import SweepReport
from kvplan.report.sweepwords import Alike, Alteration, Clause
from kvplan.rules import get
from kvplan.words import counted

_FEW = 60
"""Rows that may stand before findings and changes; more would push these out of a comment of limited length."""


def render(report: SweepReport, _canvas: Canvas | None = None) -> str:
    """The sweep as Markdown, ending in a newline, short enough for a comment."""
    return fitting(_blocks(report))


def _blocks(report: SweepReport) -> Iterator[str]:
    yield f"### kvplan: {report.verdict}"
    yield f"**{escaped(words.models(report))}: {words.sum_of(report)}**"
    if common := words.circumstances(report):
        yield f"With {escaped(common)}"
    if len(report.rows) <= _FEW:
        yield from _rows(report)
    lost = [(escaped(words.among(report, rows)), escaped(problem)) for problem, rows in words.problems(report).items()]
    yield from tables(("cannot be used", "why"), lost)
    found = [_finding(report, one) for one in words.alike(report)]
    yield from tables(("severity", "rule", "in", "finding", "fix"), found)
    if report.steps is not None:
        yield "#### What changes"
        if not report.steps:
            yield f"{escaped(words.nothing_to_compare(report).capitalize())}."
        for alteration in words.alterations(report, report.steps):
            yield "\n".join(_alteration(alteration))
        if quiet := words.quiet(report.steps):
            yield f"Nothing changes in {counted(quiet, 'other step')}."
    if len(report.rows) > _FEW:
        yield from _rows(report)


def _rows(report: SweepReport) -> Iterator[str]:
    """The table of the combinations, or several."""
    columns = words.table(report)
    headings = [escaped(words.heading(name)) for name in columns]
    marked = [[f"**{cell}**" if name == "verdict" else escaped(cell) for cell in columns[name]] for name in columns]
    yield from tables(headings, list(zip(*marked, strict=True)), words.NUMBERS)


def _finding(report: SweepReport, one: Alike) -> tuple[str, ...]:
    finding = one.finding
    message = escaped(finding.message)
    links = [link(name, page) for name in finding.references if (page := outcomes.address(name))]
    return (
        f"**{finding.severity}**",
        f"{link(finding.rule, documentation.of_rule(finding.rule))} {escaped(get(finding.rule).name)}",
        escaped(words.where(report, one)),
        f"{message}<br>{', '.join(links)}" if links else message,
        escaped(finding.fix or ""),
    )


def _alteration(alteration: Alteration) -> Iterator[str]:
    beside = f" ({escaped(alteration.among)})" if alteration.among else ""
    yield f"- **{escaped(alteration.title)}**{beside}"
    for explanation, changes in alteration.changes.items():
        for change in changes:
            yield f"  - {words.LABELS[change.name]}: {escaped(words.difference(change))}"
        for clause in words.because(explanation):
            yield f"    - {_clause(clause)}"


def _clause(clause: Clause) -> str:
    told = escaped(clause.text)
    beside = [] if clause.entry is None else [f"`{clause.entry}`"]
    if clause.source is not None:
        page = outcomes.address(clause.source)
        beside.append(escaped(clause.source) if page is None else link(clause.source, page))
    return f"{told} ({', '.join(beside)})" if beside else told
