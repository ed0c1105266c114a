"""What a scan tells: its launches with their reports, and what could not be followed."""

from __future__ import annotations

from dataclasses import dataclass

from kvplan.launch.found import FoundLaunch, Unreadable
from kvplan.launch.locations import Location
from kvplan.report.values import Report, Verdict, worst
from kvplan.rules.limits.kv912_launch_not_followed import CODE
from kvplan.rules.suppression import Origin, Stale, Suppressed
from kvplan.rules.values import Finding, Severity


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
class NotFollowed:
    """A launch or file that could not be followed, as a finding that may be let be."""

    unreadable: Unreadable
    severity: Severity = Severity.WARNING
    suppressed: Suppressed | None = None
    """Why it does not count."""

    @property
    def finding(self) -> Finding:
        """The finding, of a file as a whole on its line 0."""
        place = self.unreadable.location or Location(self.unreadable.file, 0, 0)
        return Finding(rule=CODE, severity=self.severity, message=self.unreadable.reason, location=place)

    @property
    def origin(self) -> Origin:
        """The launch, of which only the place is known."""
        return Origin(model="", name="", location=self.finding.location)


@dataclass(frozen=True, slots=True)
class ScanReport:
    """Everything that a scan found, in the order of the files."""

    launches: tuple[ScannedLaunch, ...]
    lost: tuple[NotFollowed, ...]
    """What could not be followed, that which was let be included."""
    files: int
    """Files that were looked through."""
    stale: tuple[Stale, ...] = ()
    """What is to suppress findings and does not."""

    @property
    def unreadable(self) -> tuple[NotFollowed, ...]:
        """What could not be followed, and counts."""
        return tuple(one for one in self.lost if one.suppressed is None)

    @property
    def verdict(self) -> Verdict:
        """The worst verdict; what could not be followed is a warning, unless the operator says otherwise."""
        verdicts = [launch.report.verdict for launch in self.launches]
        verdicts += [Verdict(one.severity.value) for one in self.unreadable]
        return worst(verdicts)

    def count(self, severity: Severity) -> int:
        """The findings of one severity over all launches."""
        return sum(launch.report.count(severity) for launch in self.launches)

    @property
    def suppressed(self) -> int:
        """The findings that were let be with a reason, over all launches."""
        gone = len(self.lost) - len(self.unreadable)
        return gone + sum(len(launch.report.suppressed) for launch in self.launches)
