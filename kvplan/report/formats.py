"""The formats a report can be told in. A new one is a module with `render`, and one entry here."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from kvplan.report.canvas import Canvas

if TYPE_CHECKING:
    from kvplan.report.scanvalues import ScanReport
    from kvplan.report.sweepvalues import SweepReport
    from kvplan.report.values import Report
    from kvplan.rules.values import Severity


@dataclass(frozen=True, slots=True)
class Format:
    """One output format. `module` is imported when it is used, so that no format slows another down."""

    name: str
    summary: str
    module: str
    scan_module: str | None = None
    """What renders a scan, where `module` does not."""
    sweep_module: str | None = None
    """What renders a sweep, where `module` does not."""
    commands: bool = False
    """Whether the text is meant to be commands of a CI runner."""
    gate: bool = False
    """Whether the format tells what fails, and so has to know --fail-on."""

    def render(self, report: Report, canvas: Canvas, fail_on: Severity | None = None) -> str:
        """The report in this format, ending in a newline."""
        return self._rendered(self.module, report, canvas, fail_on)

    def render_scan(self, report: ScanReport, canvas: Canvas, fail_on: Severity | None = None) -> str:
        """The scan in this format, ending in a newline."""
        return self._rendered(self.scan_module or self.module, report, canvas, fail_on)

    def render_sweep(self, report: SweepReport, canvas: Canvas, fail_on: Severity | None = None) -> str:
        """The sweep in this format, ending in a newline."""
        return self._rendered(self.sweep_module or self.module, report, canvas, fail_on)

    def _rendered(self, module: str, report: object, canvas: Canvas, fail_on: Severity | None) -> str:
        known: dict[str, Any] = {"fail_on": fail_on} if self.gate and fail_on is not None else {}
        text: str = import_module(module).render(report, canvas, **known)
        return text


FORMATS: dict[str, Format] = {
    entry.name: entry
    for entry in (
        Format(
            "text",
            "text for people at a terminal",
            "kvplan.report.text",
            "kvplan.report.scantext",
            "kvplan.report.sweeptext",
        ),
        Format(
            "json",
            "JSON for programs, by kvplan's own schemas",
            "kvplan.report.jsonreport",
            "kvplan.report.scanjson",
            "kvplan.report.sweepjson",
        ),
        Format(
            "markdown",
            "Markdown for comments and job summaries",
            "kvplan.report.markdown",
            sweep_module="kvplan.report.sweepmarkdown",
        ),
        Format(
            "html",
            "one HTML page that loads nothing",
            "kvplan.report.webpage",
            sweep_module="kvplan.report.sweeppage",
        ),
        Format("sarif", "SARIF 2.1.0 for code scanning", "kvplan.report.sarif"),
        Format("github", "annotations of GitHub Actions", "kvplan.report.github", commands=True),
        Format("gitlab", "GitLab's code quality report", "kvplan.report.gitlab"),
        Format("junit", "JUnit XML, one test case a finding", "kvplan.report.junit", gate=True),
    )
}
