"""A scan for a person at a terminal: one block a launch, then what could not be followed, then the sum."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import replace

from kvplan.report.canvas import Canvas
from kvplan.report.page import GAP, Page
from kvplan.report.scanvalues import NotFollowed, ScannedLaunch, ScanReport
from kvplan.report.text import finding_block, head
from kvplan.rules.limits import kv912_launch_not_followed
from kvplan.rules.values import Finding, Severity
from kvplan.words import counted, listed


def render(report: ScanReport, canvas: Canvas) -> str:
    """The scan as text for `canvas`, ending in a newline."""
    page = Page(canvas)
    shared = _shared(report)
    for launch in report.launches:
        _block(page, launch, shared)
        page.gap()
    for finding, count in shared.items():
        finding_block(page, replace(finding, message=f"({counted(count, 'launch', 'launches')}) {finding.message}"))
    if shared:
        page.gap()
    for lost in report.unreadable:
        _lost(page, lost)
    if report.unreadable:
        page.line(f"More about what could not be followed: kvplan explain {kv912_launch_not_followed.CODE}")
        page.gap()
    page.line((f"{report.verdict}:", str(report.verdict)), (_sum(report), "bold"))
    return page.text()


def _shared(report: ScanReport) -> dict[Finding, int]:
    """Notes that say the same of several launches: told once, at the end, with their number."""
    counts = Counter(
        replace(finding, location=None)
        for launch in report.launches
        for finding in launch.report.findings
        if _is_general(finding, launch)
    )
    return {finding: count for finding, count in sorted(counts.items(), key=_order) if count > 1}


def _order(pair: tuple[Finding, int]) -> tuple[str, str]:
    return (pair[0].rule, pair[0].message)


def _is_general(finding: Finding, launch: ScannedLaunch) -> bool:
    """Whether a finding is a note on the launch as a whole."""
    return finding.severity is Severity.NOTE and finding.location == launch.found.location


def _block(page: Page, launch: ScannedLaunch, shared: Collection[Finding]) -> None:
    page.line((launch.place, "bold"), launch.title)
    head(page, launch.report, indent=GAP)
    for gone in launch.report.suppressed:
        if launch.report.plan.stops_with is not None and gone.finding.severity is Severity.ERROR:
            # Else nothing would say why a start that fails is no error.
            page.line("let be:", f"{gone.finding.rule}, {gone.reason} ({gone.where})", indent=2 * GAP, hanging=GAP)
    for finding in launch.report.findings:
        if not _is_general(finding, launch) or replace(finding, location=None) not in shared:
            finding_block(page, _without_own_place(finding, launch), indent=GAP)


def _without_own_place(finding: Finding, launch: ScannedLaunch) -> Finding:
    """A place is shown where it says more than the head of the block."""
    return replace(finding, location=None) if finding.location == launch.found.location else finding


def _lost(page: Page, lost: NotFollowed) -> None:
    place = lost.unreadable.location
    where = lost.unreadable.file if place is None else f"{place.file}:{place.line}:{place.column}"
    page.line(("unreadable:", str(lost.severity)), f"{where}: {lost.unreadable.reason}", hanging=GAP)


def _sum(report: ScanReport) -> str:
    parts = [counted(report.count(severity), str(severity)) for severity in Severity if report.count(severity)]
    launches, files = counted(len(report.launches), "launch", "launches"), counted(report.files, "file")
    told = f"{launches} in {files}"
    if parts:
        told += f", {listed(parts)}"
    if report.unreadable:
        told += f"; {len(report.unreadable):,} could not be followed"
    if report.suppressed:
        told += f"; {report.suppressed:,} suppressed"
    return told
