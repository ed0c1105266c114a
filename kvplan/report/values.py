"""What the report room tells: a plan, its findings and the verdict over them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from kvplan.engine.values import Plan
from kvplan.rules.suppression import Suppressed, dismisses_failure
from kvplan.rules.values import Finding, Severity


class Verdict(StrEnum):
    """From good to bad: the worst severity among the findings, `ok` where there are none. A start-up that fails is an
    error."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"

    def reaches(self, threshold: Severity) -> bool:
        """Whether this verdict is as bad as `threshold`, or worse."""
        return self is not Verdict.OK and Severity(self.value).rank <= threshold.rank


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The worst of several verdicts, `ok` where there are none."""
    return max(verdicts, key=list(Verdict).index, default=Verdict.OK)


class Detail(StrEnum):
    """How much of the plan a format for people shows."""

    CHECK = "check"
    """The gate: verdict, findings, and a summary of layers and capacity."""
    PLAN = "plan"
    """Everything computed: settings, block-size steps and backend decisions besides."""
    WHY = "why"
    """The chain of reasons behind each value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One launch, ready to be told. `findings` are ordered worst first and already filtered."""

    plan: Plan
    findings: tuple[Finding, ...]
    verdict: Verdict
    detail: Detail = Detail.CHECK
    layer: int | None = None
    """The decoder layer that `why` is asked about; None for all."""
    value: str | None = None
    """The value (`cache.dtype`, `backend`, …) that `why` is asked about; None for all."""
    suppressed: tuple[Suppressed, ...] = ()
    """Findings that were let be with a reason; they are in no count and no verdict."""

    def count(self, severity: Severity) -> int:
        """The number of findings of one severity."""
        return sum(finding.severity is severity for finding in self.findings)


def make(
    plan: Plan,
    findings: Sequence[Finding],
    *,
    detail: Detail = Detail.CHECK,
    layer: int | None = None,
    value: str | None = None,
    failure_dismissed: bool = False,
) -> Report:
    """A report on `plan`: findings ordered (worst first, then by rule and layer) and the verdict drawn.

    A start-up that fails is an error even where no finding says so, unless the operator dismissed the findings
    that did (`failure_dismissed`).
    """
    ordered = tuple(sorted(findings, key=lambda finding: (finding.severity.rank, finding.rule, finding.layers)))
    verdict = Verdict(ordered[0].severity.value) if ordered else Verdict.OK
    if plan.stops_with is not None and not failure_dismissed:
        verdict = Verdict.ERROR
    return Report(plan=plan, findings=ordered, verdict=verdict, detail=detail, layer=layer, value=value)


def without(report: Report, kept: Sequence[Finding], suppressed: Sequence[Suppressed]) -> Report:
    """The report with only `kept` of its findings, the others being suppressed."""
    if not suppressed:
        return report
    dismissed = report.plan.stops_with is not None and report.verdict is not Verdict.ERROR
    changed = make(report.plan, kept, failure_dismissed=dismissed or dismisses_failure(suppressed))
    return replace(
        report,
        findings=changed.findings,
        verdict=changed.verdict,
        suppressed=(*report.suppressed, *suppressed),
    )
