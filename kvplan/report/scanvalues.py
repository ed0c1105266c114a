"""What a scan tells: its launches with their reports, and what could not be followed."""

from __future__ import annotations

from dataclasses import dataclass

from kvplan.launch.found import FoundLaunch, Unreadable
from kvplan.report.values import Report, Verdict
from kvplan.rules.suppression import Origin
from kvplan.rules.values import Severity

_ORDER = (Verdict.OK, Verdict.NOTE, Verdict.WARNING, Verdict.ERROR)


@dataclass(frozen=True, slots=True)
class ScannedLaunch:
    """One launch: where it was found, and what comes of it."""

    found: FoundLaunch
    report: Report

    @property
    def place(self) -> str:
        """`deploy.yaml:12`."""
        return f"{self.found.location.file}:{self.found.location.line}"

    @property
    def title(self) -> str:
        """What holds it: `Deployment glm/vllm`."""
        return f"{self.found.around.kind} {self.found.around.name}".strip()

    @property
    def origin(self) -> Origin:
        """The launch, for those who judge its findings."""
        plan = self.report.plan
        return Origin(
            model=plan.launch.model or "",
            name=plan.checkpoint.name,
            location=self.found.location,
            title=self.title,
        )


@dataclass(frozen=True, slots=True)
class ScanReport:
    """Everything that a scan found, in the order of the files."""

    launches: tuple[ScannedLaunch, ...]
    unreadable: tuple[Unreadable, ...]
    files: int
    """Files that were looked through."""

    @property
    def verdict(self) -> Verdict:
        """The worst verdict; what could not be followed is at least a warning."""
        verdicts = [launch.report.verdict for launch in self.launches]
        if self.unreadable:
            verdicts.append(Verdict.WARNING)
        return max(verdicts, key=_ORDER.index, default=Verdict.OK)

    def count(self, severity: Severity) -> int:
        """The findings of one severity over all launches."""
        return sum(launch.report.count(severity) for launch in self.launches)

    @property
    def suppressed(self) -> int:
        """The findings that were let be with a reason, over all launches."""
        return sum(len(launch.report.suppressed) for launch in self.launches)
