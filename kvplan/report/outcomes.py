"""The launches and findings of a report, a scan or a sweep as one list, for formats that hold them the same way."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kvplan.launch.locations import Location
from kvplan.report.places import is_file, relative
from kvplan.report.scanvalues import NotFollowed, ScanReport
from kvplan.report.sweepvalues import SweepReport
from kvplan.report.values import Report
from kvplan.report.words import layer_list
from kvplan.rules.suppression import Suppressed
from kvplan.rules.values import Finding, Severity
from kvplan.words import counted, listed

Reported = Report | ScanReport | SweepReport
"""What formats tell."""

REPOSITORY = "https://github.com/vllm-project/vllm"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One launch: what comes of it, what it is called, and where it was found (None: on kvplan's command line)."""

    report: Report
    title: str
    location: Location | None = None
    combination: Mapping[str, str] = field(default_factory=dict)
    """The value of each option that a sweep varies."""
    words: str = ""
    """The combination as it would be typed."""

    @property
    def subject(self) -> str:
        """The file that it is about: the one it was found in, else the model's, or its name where it has none."""
        if self.location is not None and is_file(self.location):
            return self.location.file
        checkpoint = self.report.plan.checkpoint
        return checkpoint.path or checkpoint.name

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

    @property
    def full_text(self) -> str:
        """The same where no title stands beside it: with the combination, if there is one."""
        return f"{self.outcome.words}: {self.text}" if self.outcome.words else self.text


@dataclass(frozen=True, slots=True)
class LostOutcome:
    """Something that nothing could be found out about: a file, a launch in it, or a combination of a sweep."""

    name: str
    """`deploy.yaml:12`, or the combination as it would be typed."""
    reason: str
    severity: Severity
    subject: str
    """The file, or the model where there is none."""
    identity: tuple[str, ...]
    """What makes it the same one tomorrow."""
    location: Location | None = None
    """Where it stands; of a file as a whole its beginning."""
    combination: Mapping[str, str] = field(default_factory=dict)
    suppressed: Suppressed | None = None
    """Why it does not count, where somebody let it be."""

    @property
    def place(self) -> Location | None:
        """Where it stands, if that is in a file."""
        return self.location if self.location is not None and is_file(self.location) else None

    @property
    def text(self) -> str:
        """What it is, and why nothing is known about it."""
        name = self.name if self.location is None else relative(self.location.file)
        return f"{name}: {self.reason}" if name else self.reason


def outcomes(report: Reported) -> tuple[Outcome, ...]:
    """The launches of a report (one), of a scan, or of a sweep."""
    if isinstance(report, Report):
        return (Outcome(report, _served(report)),)
    if isinstance(report, SweepReport):
        return tuple(
            Outcome(
                found,
                f"{_served(found)} ({row.words})" if row.words else _served(found),
                combination=row.options,
                words=row.words,
            )
            for row, found in report.usable
        )
    return tuple(
        Outcome(launch.report, launch.title or launch.report.plan.checkpoint.name, launch.found.location)
        for launch in report.launches
    )


def _served(report: Report) -> str:
    return f"vllm serve {report.plan.checkpoint.name}"


def lost(report: Reported) -> tuple[LostOutcome, ...]:
    """What a scan could not follow, and the combinations of a sweep that cannot be used: those that count."""
    return tuple(one for one in all_lost(report) if one.suppressed is None)


def all_lost(report: Reported) -> tuple[LostOutcome, ...]:
    """The same with those that were let be."""
    if isinstance(report, Report):
        return ()
    if isinstance(report, SweepReport):
        model = next((found.plan.checkpoint.name for _, found in report.usable), "")
        return tuple(
            LostOutcome(row.words, row.problem, Severity.ERROR, model, ("unusable", row.words), combination=row.options)
            for row in report.rows
            if row.problem is not None
        )
    return tuple(map(_not_followed, report.lost))


def _not_followed(one: NotFollowed) -> LostOutcome:
    file, place, reason = one.unreadable.file, one.unreadable.location, one.unreadable.reason
    return LostOutcome(
        relative(file) + ("" if place is None else f":{place.line}"),
        reason,
        one.severity,
        file,
        ("unreadable", relative(file), reason),
        place or Location(file, 1, 1),
        suppressed=one.suppressed,
    )


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


def sum_of(report: Reported) -> str:
    """What there is in one line: `3 launches in 2 files, 1 error; 1 could not be followed; 2 suppressed`."""
    is_sweep = isinstance(report, SweepReport)
    launches = outcomes(report)
    counts = [(sum(one.report.count(severity) for one in launches), severity) for severity in Severity]
    parts = listed([counted(count, str(severity)) for count, severity in counts if count])
    missing = len(lost(report))
    told = counted(len(launches) + missing, "combination") if is_sweep else counted(len(launches), "launch", "launches")
    if isinstance(report, ScanReport):
        told += f" in {counted(report.files, 'file')}"
    told += f", {parts or 'no findings'}"
    told += f"; {missing:,} {'cannot be used' if is_sweep else 'could not be followed'}" if missing else ""
    suppressed = len(all_lost(report)) - missing + sum(len(one.report.suppressed) for one in launches)
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


def let_be(report: Reported) -> tuple[tuple[str, str], ...]:
    """What could not be followed and was let be: what, and why."""
    return tuple((one.name, reason(one.suppressed)) for one in all_lost(report) if one.suppressed is not None)


def reason(suppressed: Suppressed) -> str:
    """Why a finding does not count, and where that is written."""
    return f"{suppressed.reason} ({suppressed.where})"


def address(reference: str) -> str | None:
    """The page of a reference like `vllm#12345`; GitHub leads from issues on to pull requests."""
    repository, mark, number = reference.partition("#")
    return f"{REPOSITORY}/issues/{number}" if mark and repository == "vllm" and number.isdigit() else None
