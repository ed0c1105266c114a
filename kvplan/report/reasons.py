"""The trace for people: each value, what it became, and what made it so."""

from __future__ import annotations

from kvplan.report.page import GAP, Page
from kvplan.report.trace import selected_steps
from kvplan.report.values import Report
from kvplan.report.words import layers_named, span


def reasons(page: Page, report: Report) -> None:
    """The trace by stage: each value, what it became, and what made it so."""
    steps = selected_steps(report)
    if not steps:
        page.gap()
        page.line("The trace has nothing about that.")
    stage = None
    for step in steps:
        if step.stage != stage:
            page.heading(str(step.stage))
            stage = step.stage
        where = f"({layers_named(step.layers)})" if step.layers else ""
        page.line(f"{step.value} =", (step.result, "bold"), where, indent=GAP)
        page.line(step.cause, indent=2 * GAP)
        if step.option is not None:
            page.line(f"option {step.option}", indent=2 * GAP)
        if step.behaviour is not None:
            behaviour = step.behaviour
            reference = f" ({behaviour.reference})" if behaviour.reference else ""
            page.line(f"vLLM {span(behaviour)}: {behaviour.summary}{reference}", indent=2 * GAP)
    if report.layer is None and report.value is None:
        _attempts(page, report)


def _attempts(page: Page, report: Report) -> None:
    """What was tried to mend each finding, and the rules that speak against it."""
    for finding in report.findings:
        if finding.attempts:
            page.heading(f"What was tried against {finding.rule}")
        for attempt in finding.attempts:
            page.line(f"{attempt.words}: {attempt.outcome}", indent=GAP)
