"""Findings that somebody has looked at and lets be, each with a reason: from comments, settings and baselines.

Everything here is a function of findings and of what is to be suppressed; files are read elsewhere.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path

from kvplan.launch.globs import Globs
from kvplan.launch.locations import Location
from kvplan.rules.registry import RULES
from kvplan.rules.values import Finding, Severity


@dataclass(frozen=True, slots=True)
class Suppressed:
    """A finding that does not count, and why."""

    finding: Finding
    reason: str
    by: str
    """`comment`, `settings` or `baseline`."""
    where: str
    """The place of the comment, the entry or the baseline."""


@dataclass(frozen=True, slots=True)
class Stale:
    """Something that is to suppress findings of a rule, and of which there are none any more."""

    rule: str
    where: str
    """The place of the comment, the entry or the baseline."""
    text: str
    """What is stale about it, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The launch that a finding is about."""

    model: str
    """As the launch names it."""
    name: str
    """What the model is called."""
    location: Location | None = None
    title: str = ""
    """What holds the launch: `Deployment glm/vllm`."""


Judge = Callable[[Finding, Origin], Suppressed | None]
"""Says of a finding why it does not count; None where it does."""


def divide(
    findings: Iterable[Finding], origin: Origin, judges: Iterable[Judge]
) -> tuple[tuple[Finding, ...], tuple[Suppressed, ...]]:
    """The findings that count, and those that a judge, of which the first one holds, takes out."""
    judges = tuple(judges)
    kept: list[Finding] = []
    gone: list[Suppressed] = []
    for finding in findings:
        suppressed = verdict(finding, origin, judges)
        if suppressed is None:
            kept.append(finding)
        else:
            gone.append(suppressed)
    return tuple(kept), tuple(gone)


def verdict(finding: Finding, origin: Origin, judges: Iterable[Judge]) -> Suppressed | None:
    """What the first judge says who takes the finding out; None where it counts."""
    reasons = (judge(finding, origin) for judge in judges)
    return next((reason for reason in reasons if reason is not None), None)


def dismisses_failure(gone: Iterable[Suppressed]) -> bool:
    """Whether a suppressed finding is one that may stand for a start-up that fails, whatever its severity is now."""
    worst = {rule.code: rule.severity for rule in RULES}
    return any(worst[one.finding.rule] is Severity.ERROR for one in gone)


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment in a file that a launch was found in."""

    place: Location
    lines: frozenset[int]
    """The lines that it is about."""
    codes: frozenset[str]
    reason: str

    @property
    def where(self) -> str:
        """`deploy.yaml:12`."""
        return f"{self.place.file}:{self.place.line}"


def by_comments(comments: Mapping[str, Iterable[Comment]]) -> Judge:
    """A judge who goes by the comments, given by file: first those about the finding's place."""

    first: dict[tuple[str, str], Comment] = {}
    by_line: dict[tuple[str, str, int], Comment] = {}
    for file, each in comments.items():
        for comment in each:
            for code in comment.codes:
                first.setdefault((file, code), comment)
                for line in comment.lines:
                    by_line.setdefault((file, code, line), comment)

    def judge(finding: Finding, origin: Origin) -> Suppressed | None:
        for place in (finding.location, origin.location):
            if place is None:
                continue
            # About line 0, the file as a whole, every comment of the file is.
            whole = first.get((place.file, finding.rule)) if place.line == 0 else None
            comment = whole or by_line.get((place.file, finding.rule, place.line))
            if comment is not None:
                return Suppressed(finding, comment.reason, "comment", comment.where)
        return None

    return judge


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsEntry:
    """A `[[suppress]]` entry of a settings file; with both a path and a model, both have to fit."""

    rule: str
    """The code."""
    reason: str
    where: str
    """The entry as messages call it."""
    root: Path
    """The directory or file that holds all it can be about."""
    path: Globs | None = None
    model: str | None = None
    """A pattern for the model's name, with or without organisation, in any case."""
    expires: date | None = None
    """The last day on which it holds."""

    def expired(self, today: date) -> bool:
        """Whether it holds no longer."""
        return self.expires is not None and today > self.expires

    def means(self, finding: Finding, origin: Origin) -> bool:
        """Whether it is about a finding."""
        if finding.rule != self.rule:
            return False
        if self.path is not None:
            files = {place.file for place in (finding.location, origin.location) if place is not None}
            if not any(self.path.match(file) for file in files):
                return False
        return self.model is None or _named(self.model.lower(), (origin.model.lower(), origin.name.lower()))


def _named(pattern: str, names: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) or fnmatchcase(name.rpartition("/")[2], pattern) for name in names)


def by_entries(entries: Iterable[SettingsEntry], today: date) -> Judge:
    """A judge who goes by the entries of a settings file that have not expired."""
    alive = tuple(entry for entry in entries if not entry.expired(today))

    def judge(finding: Finding, origin: Origin) -> Suppressed | None:
        entry = next((entry for entry in alive if entry.means(finding, origin)), None)
        return None if entry is None else Suppressed(finding, entry.reason, "settings", entry.where)

    return judge


def stale_comments(
    comments: Iterable[Comment],
    findings: Iterable[tuple[Finding, Origin]],
    rules: Collection[str],
    obscure: Collection[str] = (),
) -> Iterator[Stale]:
    """Comments with a code among `rules` that is about none of the findings, which are all those of their files, but
    of the `obscure` ones, which hold launches that could not be followed."""
    found = {
        (place.file, finding.rule, place.line)
        for finding, origin in findings
        for place in (finding.location, origin.location)
        if place is not None
    }
    for comment in comments:
        if comment.place.file in obscure:
            continue
        used = {
            code for code in comment.codes for line in (0, *comment.lines) if (comment.place.file, code, line) in found
        }
        for rule in sorted(comment.codes.intersection(rules) - used):
            text = f"the comment lets {rule} be, which is not found there any more: take it away"
            yield Stale(rule, comment.where, text)


def stale_entries(
    entries: Iterable[SettingsEntry],
    findings: Iterable[tuple[Finding, Origin]],
    rules: Collection[str],
    scanned: Collection[Path],
    today: date,
    obscure: Collection[str] = (),
) -> Iterator[Stale]:
    """Entries about one of `rules` that are about none of the findings, although all that they can be about was
    `scanned` and is in none of the `obscure` files, which hold launches that could not be followed. Those that have
    expired are told otherwise."""
    findings = tuple(findings)
    for entry in entries:
        whole = any(entry.root.is_relative_to(path) for path in scanned)
        unsure = any(entry.path is None or entry.path.match(file) for file in obscure)
        if entry.rule not in rules or entry.expired(today) or not whole or unsure:
            continue
        if not any(entry.means(finding, origin) for finding, origin in findings):
            text = f"the entry lets {entry.rule} be, which is not found there any more: take it away"
            yield Stale(entry.rule, entry.where, text)


def fingerprint(finding: Finding, origin: Origin, file: str) -> str:
    """What stays of a finding when lines move, figures change or kvplan words it anew: rule, file (as seen from the
    baseline), what holds the launch, its model and the options concerned."""
    parts = (finding.rule, file, origin.title, origin.name, *sorted(finding.options))
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]


@dataclass(slots=True)
class Known:
    """The findings of a baseline that were not met yet: each suppresses as many as it had."""

    counts: Counter[str]
    """By fingerprint."""
    where: str
    file_of: Callable[[str], str]
    """A file as the baseline calls it."""
    met: Counter[str] = field(default_factory=Counter)

    def judge(self, finding: Finding, origin: Origin) -> Suppressed | None:
        """Judge a finding; one more than the baseline has is new."""
        key = fingerprint(finding, origin, self.file_of(origin.location.file) if origin.location else "")
        if self.met[key] >= self.counts[key]:
            return None
        self.met[key] += 1
        return Suppressed(finding, "in the baseline", "baseline", self.where)
