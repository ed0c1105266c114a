"""The launches and findings of a report or of a scan as one list, for formats that hold both the same way."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from kvplan.launch.found import Unreadable
from kvplan.launch.values import Location
from kvplan.report.places import is_file, relative
from kvplan.report.scanvalues import ScanReport
from kvplan.report.values import Report
from kvplan.report.words import counted, layer_list, listed
from kvplan.rules.suppression import Suppressed
from kvplan.rules.values import Finding, Severity

REPOSITORY = "https://github.com/vllm-project/vllm"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One launch: what comes of it, what it is called, and where it was found (None: on kvplan's command line)."""

    report: Report
    title: str
    location: Location | None = None

    @property
    def label(self) -> str:
        """The name with the place: `deploy.yaml:12 Deployment glm/vllm`."""
        if self.location is None:
            return self.title
        return f"{relative(self.location.file)}:{self.location.line} {self.title}"


@dataclass(frozen=True, slots=True)
class Told:
    """One finding of one launch. The fingerprint stays the same when lines move, numbers change or words do."""

    finding: Finding
    outcome: Outcome
    fingerprint: str
    suppressed: Suppressed | None = None
    """Why it does not count, where somebody let it be."""

    @property
    def place(self) -> Location | None:
        """Where to change something, if that is in a file."""
        location = self.finding.location or self.outcome.location
        return location if location is not None and is_file(location) else None

    @property
    def text(self) -> str:
        """The message with the fix."""
        return f"{self.finding.message}\nFix: {self.finding.fix}" if self.finding.fix else self.finding.message


def outcomes(report: Report | ScanReport) -> tuple[Outcome, ...]:
    """The launches of a report (one) or of a scan."""
    if isinstance(report, Report):
        return (Outcome(report, f"vllm serve {report.plan.checkpoint.name}"),)
    return tuple(
        Outcome(launch.report, launch.title or launch.report.plan.checkpoint.name, launch.found.location)
        for launch in report.launches
    )


def unreadable(report: Report | ScanReport) -> tuple[Unreadable, ...]:
    """What a scan could not follow."""
    return () if isinstance(report, Report) else report.unreadable


def findings(launches: Iterable[Outcome]) -> tuple[Told, ...]:
    """Every finding that counts of every launch, in order, each with a fingerprint of its own."""
    return tuple(told for told in everything(launches) if told.suppressed is None)


def everything(launches: Iterable[Outcome]) -> tuple[Told, ...]:
    """The findings that count and those that were let be, launch by launch.

    They share fingerprints out together, so that to let one be leaves those of its like as they are.
    """
    seen: Counter[tuple[str, ...]] = Counter()
    told = []
    for outcome in launches:
        kept = [(finding, None) for finding in outcome.report.findings]
        gone = [(one.finding, one) for one in outcome.report.suppressed]
        numbers: dict[int, str] = {}
        both = [*kept, *gone]
        for position in sorted(range(len(both)), key=lambda position: both[position][0].message):
            key = _identity(both[position][0], outcome)
            numbers[position] = fingerprint(*key, str(seen[key]))
            seen[key] += 1
        told += [Told(finding, outcome, numbers[at], reason) for at, (finding, reason) in enumerate(both)]
    return tuple(told)


def fingerprint(*parts: str) -> str:
    """A digest of the parts, for programs that compare one run with the next."""
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _identity(finding: Finding, outcome: Outcome) -> tuple[str, ...]:
    """What makes a finding the same one tomorrow: rule, file, launch, model and options; no line and no number."""
    place = finding.location or outcome.location
    file = relative(place.file) if place is not None else ""
    return (finding.rule, file, outcome.title, outcome.report.plan.checkpoint.name, *finding.options)


def sum_of(report: Report | ScanReport) -> str:
    """What there is in one line: `3 launches in 2 files, 1 error; 1 could not be followed; 2 suppressed`."""
    launches = outcomes(report)
    counts = [(sum(one.report.count(severity) for one in launches), severity) for severity in Severity]
    parts = listed([counted(count, str(severity)) for count, severity in counts if count])
    told = counted(len(launches), "launch", "launches")
    if isinstance(report, ScanReport):
        told += f" in {counted(report.files, 'file')}"
    told += f", {parts or 'no findings'}"
    lost = len(unreadable(report))
    told += f"; {lost:,} could not be followed" if lost else ""
    suppressed = sum(len(one.report.suppressed) for one in launches)
    return f"{told}; {suppressed:,} suppressed" if suppressed else told


def details(told: Told) -> list[tuple[str, str]]:
    """Place, layers, fix and references of a finding, those that there are."""
    finding, rows = told.finding, []
    location = finding.location or told.outcome.location
    if location is not None:
        rows.append(("at", f"{relative(location.file)}:{location.line}:{location.column}"))
    if finding.layers:
        rows.append(("layers", layer_list(finding.layers)))
    if finding.fix:
        rows.append(("fix", finding.fix))
    if finding.references:
        rows.append(("see", ", ".join(finding.references)))
    if told.suppressed is not None:
        rows.append(("let be", reason(told.suppressed)))
    return rows


def reason(suppressed: Suppressed) -> str:
    """Why a finding does not count, and where that is written."""
    return f"{suppressed.reason} ({suppressed.where})"


def address(reference: str) -> str | None:
    """The page of a reference like `vllm#12345`; GitHub leads from issues on to pull requests."""
    repository, mark, number = reference.partition("#")
    return f"{REPOSITORY}/issues/{number}" if mark and repository == "vllm" and number.isdigit() else None
