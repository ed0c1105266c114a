"""A sweep for a person at a terminal: a table of the combinations, what is wrong with them, then what changes from
row to row, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kvplan.report import sweepwords as words
from kvplan.report.canvas import Canvas
from kvplan.report.page import GAP, Page
from kvplan.report.sweepvalues import Comparison, SweepReport
from kvplan.report.sweepwords import Alteration
from kvplan.rules.values import Severity
from kvplan.words import counted

_DISPENSABLE = ("block", "page B", "cache dtype", "longest", "tokens", "stops at")
"""What a narrow terminal goes without, first to last."""


def render(report: SweepReport, canvas: Canvas) -> str:
    """The sweep as text for `canvas`, ending in a newline."""
    page = Page(canvas)
    verdict = str(report.verdict)
    page.line((f"{verdict}:", verdict), (f"{words.models(report)}:", "bold"), words.sum_of(report))
    page.line(words.circumstances(report), indent=GAP)
    _tables(page, report)
    if problems := words.problems(report):
        page.gap()
        for problem, rows in problems.items():
            told = f"({counted(len(rows), 'combination')}): {problem}"
            page.line((words.UNUSABLE, "error"), told, indent=GAP, hanging=GAP)
    _findings(page, report)
    if report.steps is not None:
        _steps(page, report, report.steps)
    else:
        page.gap()
        page.line("What changes from row to row, and why: --diff" if report.axes else words.ONE)
    return page.text()


def _tables(page: Page, report: SweepReport) -> None:
    """One table of all rows; where it is too wide, one for each combination of the options that vary slowest, and
    then without what a narrow terminal can go without."""
    named = words.table(report)
    axes = [axis.name for axis in report.axes]
    lifted: list[str] = []
    while len(axes) > 1 and not page.fits(_headed(named)):
        lifted.append(axes.pop(0))
        del named[lifted[-1]]
    columns = page.fitting(_headed(named), _DISPENSABLE)
    groups: dict[str, list[tuple[str, ...]]] = {}
    for row, told in zip(report.rows, zip(*columns.values(), strict=True), strict=True):
        title = words.named({name: row.options[name] for name in lifted})
        groups.setdefault(title, []).append(told)
    for title, rows in groups.items():
        page.gap()
        if title:
            page.line((title, "bold"), indent=GAP)
        page.table(tuple(columns), rows, right=words.NUMBERS)


def _headed(named: Mapping[str, Sequence[str]]) -> dict[str, Sequence[str]]:
    """The columns under headings whose words may stand below each other."""
    return {words.heading(name).replace("-", " "): column for name, column in named.items()}


def _findings(page: Page, report: SweepReport) -> None:
    """Errors and warnings, each rule once; notes are left to the commands about one launch."""
    found = words.alike(report, Severity.WARNING)
    for one in found:
        finding = one.finding
        page.gap()
        label = f"{finding.severity} {finding.rule}:"
        page.line((label, str(finding.severity)), finding.message, hanging=GAP)
        rows = [("in:", words.where(report, one))] if report.axes else []
        if finding.fix:
            rows.append(("fix:", finding.fix))
        page.pairs(rows)
    if found:
        page.gap()
        page.line(f"More about a finding: kvplan explain {found[0].finding.rule}")


def _steps(page: Page, report: SweepReport, steps: Sequence[Comparison]) -> None:
    """Every step with changes; the others in one line."""
    page.heading("What changes")
    if not steps:
        page.line(words.nothing_to_compare(report), indent=GAP, hanging=GAP)
    for alteration in words.alterations(report, steps):
        _alteration(page, alteration)
    if quiet := words.quiet(steps):
        page.gap()
        page.line(f"nothing changes in {counted(quiet, 'other step')}", indent=GAP)


def _alteration(page: Page, alteration: Alteration) -> None:
    page.gap()
    beside = f"({alteration.among})" if alteration.among else ""
    page.line((alteration.title, "bold"), (beside, "bold"), indent=GAP, hanging=GAP)
    for explanation, changes in alteration.changes.items():
        rows = [(words.LABELS[change.name], words.difference(change)) for change in changes]
        page.pairs(rows, indent=2 * GAP)
        for clause in words.because(explanation):
            page.line(str(clause), indent=3 * GAP, hanging=GAP)
