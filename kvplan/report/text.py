"""A report for a person at a terminal: the verdict, what to change, then the layers and what fits.

Made for 80 columns and more, light and dark terminals, and pipes, where it is plain text of a stable width.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvplan.engine.values import Plan, StartupError
from kvplan.report import sections
from kvplan.report.canvas import Canvas
from kvplan.report.layertable import layers
from kvplan.report.page import GAP, Page
from kvplan.report.reasons import reasons
from kvplan.report.values import Detail, Report
from kvplan.report.words import counted, layer_list, listed, shortened
from kvplan.rules.values import Finding, Severity

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
    page.line((f"{report.verdict}:", str(report.verdict)), (_verdict(report), "bold"), indent=indent, hanging=indent)
    if plan.error is not None:
        message = plan.error.message if report.detail is Detail.PLAN else shortened(plan.error.message, _QUOTED)
        who = "not emulated" if _is_out_of_reach(plan.error) else f"vLLM stops with {plan.error.type}"
        page.line(f"{who}: {message}" if message else who, indent=indent + GAP)
    page.line(_circumstances(plan), indent=indent + GAP)
    if report.detail is Detail.WHY:
        _reservations(page, plan)


def _verdict(report: Report) -> str:
    """What comes of the launch: `GLM-5.2-FP8 starts on vLLM 0.33.0, with 1 warning`."""
    plan = report.plan
    name, where = plan.checkpoint.name, f"on vLLM {plan.release}"
    if plan.error is None:
        return f"{name} starts {where}{f', {_tally(report)}' if report.findings else ''}"
    if _is_out_of_reach(plan.error):
        return f"kvplan cannot say what {name} does {where}"
    return f"{name} does not start {where} ({plan.error.stage})"


def _is_out_of_reach(error: StartupError) -> bool:
    """Whether it is kvplan that stops here, not vLLM."""
    return error.type == "NotEmulated"


def _reservations(page: Page, plan: Plan) -> None:
    """What limits the answer, where no finding says so."""
    if plan.release.beyond_known:
        page.line(f"vLLM {plan.release} is newer than kvplan knows: taken as {plan.release.acts_as}", indent=GAP)
    if not plan.exact:
        page.line("derived: no answers of vLLM's own cover this model in this release", indent=GAP)


def _tally(report: Report) -> str:
    counts = [(report.count(severity), severity) for severity in Severity]
    return f"with {listed([counted(count, severity) for count, severity in counts if count])}"


def _circumstances(plan: Plan) -> str:
    """The launch in one line: GPU, split, dtype and block size."""
    hardware, settings = plan.launch.hardware, plan.settings
    parts = [f"{hardware.name} (sm {hardware.capability_text}{', assumed' if hardware.assumed else ''})"]
    if settings is not None:
        split = {
            "TP": settings.tensor_parallel,
            "PP": settings.pipeline_parallel,
            "DP": settings.data_parallel,
            "DCP": settings.decode_context_parallel,
            "PCP": settings.prefill_context_parallel,
        }
        parts.append(" ".join(f"{name} {count}" for name, count in split.items() if count != 1))
        asked, got = settings.requested_cache_dtype, settings.cache_dtype_after_load
        resolved = settings.model_dtype if got == "auto" else got
        parts.append(f"cache dtype {asked}" if asked == resolved else f"cache dtype {asked} -> {resolved}")
        parts.append(f"block size {settings.block_size}")
    return "; ".join(part for part in parts if part)


def _findings(page: Page, findings: Sequence[Finding]) -> None:
    for finding in findings:
        page.gap()
        finding_block(page, finding)
    if findings:
        page.gap()
        page.line(f"More about a finding: kvplan explain {findings[0].rule}")


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
