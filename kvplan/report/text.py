"""A report for a person at a terminal: the verdict, what to change, then the layers and what fits.

Made for 80 columns and more, light and dark terminals, and pipes, where it is plain text of a stable width.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvplan.engine.values import Plan
from kvplan.launch.lookedat import not_looked_at
from kvplan.report import sections
from kvplan.report.canvas import Canvas
from kvplan.report.headline import circumstances, outcome, stop
from kvplan.report.layertable import layers
from kvplan.report.page import GAP, Page
from kvplan.report.reasons import reasons
from kvplan.report.values import Detail, Report
from kvplan.report.words import layer_list, shortened
from kvplan.rules.suppression import Suppressed
from kvplan.rules.values import Finding
from kvplan.words import counted

_QUOTED = 240
"""Characters of vLLM's own error that the gate quotes; `plan` quotes all."""


def render(report: Report, canvas: Canvas) -> str:
    """The report as text for `canvas`, ending in a newline."""
    page = Page(canvas)
    head(page, report)
    if report.detail is Detail.WHY:
        reasons(page, report)
        return page.text()
    _findings(page, report.findings)
    _suppressed(page, report.suppressed)
    if report.detail is Detail.PLAN:
        sections.settings(page, report.plan)
        sections.block_size(page, report.plan)
        sections.backends(page, report.plan)
    layers(page, report.plan)
    sections.groups(page, report.plan, whole=report.detail is Detail.PLAN)
    sections.capacity(page, report.plan, whole=report.detail is Detail.PLAN)
    return page.text()


def head(page: Page, report: Report, indent: int = 0) -> None:
    """The verdict in one line, what vLLM says where it stops, and the launch in one line."""
    plan = report.plan
    page.line((f"{report.verdict}:", str(report.verdict)), (outcome(report), "bold"), indent=indent, hanging=indent)
    error = plan.stops_with
    if error is not None:
        message = error.message if report.detail is Detail.PLAN else shortened(error.message, _QUOTED)
        page.line(stop(error, message), indent=indent + GAP)
    page.line(circumstances(plan), indent=indent + GAP)
    if report.detail is Detail.WHY:
        _reservations(page, plan)


def _reservations(page: Page, plan: Plan) -> None:
    """What limits the answer, where no finding says so."""
    if plan.release.beyond_known:
        page.line(f"vLLM {plan.release} is newer than kvplan knows: taken as {plan.release.acts_as}", indent=GAP)
    if not plan.exact and not not_looked_at(plan.launch):
        page.line("derived: no answers of vLLM's own cover this model in this release", indent=GAP)


def _findings(page: Page, findings: Sequence[Finding]) -> None:
    for finding in findings:
        page.gap()
        finding_block(page, finding)
    if findings:
        page.gap()
        page.line(f"More about a finding: kvplan explain {findings[0].rule}")


def _suppressed(page: Page, suppressed: Sequence[Suppressed]) -> None:
    """How many findings were let be, and why: each in one line."""
    if not suppressed:
        return
    page.gap()
    page.line(f"{counted(len(suppressed), 'finding')} suppressed (--no-ignore shows all)")
    page.pairs([(one.finding.rule, f"{one.reason} ({one.where})") for one in suppressed], indent=GAP)


def finding_block(page: Page, finding: Finding, indent: int = 0) -> None:
    """One finding: severity, rule and message, then place, layers, fix and references."""
    label = f"{finding.severity} {finding.rule}:"
    page.line((label, str(finding.severity)), finding.message, indent=indent, hanging=GAP)
    rows = []
    if finding.location is not None:
        rows.append(("at:", f"{finding.location.file}:{finding.location.line}:{finding.location.column}"))
    if finding.layers:
        rows.append(("layers:", layer_list(finding.layers)))
    if finding.fix:
        rows.append(("fix:", finding.fix))
    if finding.references:
        rows.append(("see:", ", ".join(finding.references)))
    page.pairs(rows, indent=indent + GAP)
