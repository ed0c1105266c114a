"""From paths to a scan's report: find launches, plan each kind of launch once, and let the rules speak.

One process does it: a plan costs some milliseconds, about what it takes to hand a plan with its layers from one
process to another, so that a pool would win nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from kvplan.checkpoint.additions import Additions
from kvplan.cli.baseline import Baseline, counting
from kvplan.errors import InputError
from kvplan.launch.found import FoundLaunch, Unreadable
from kvplan.launch.globs import Globs, absolute
from kvplan.launch.passages import Passage
from kvplan.launch.resolving import Answers, resolved
from kvplan.launch.scanning import (
    STDIN,
    STDIN_NAME,
    FileResult,
    candidates,
    config_maps,
    identity,
    kind_of,
    knows_more,
    launches,
    read,
)
from kvplan.launch.values import Remark
from kvplan.report.scanvalues import NotFollowed, ScannedLaunch, ScanReport
from kvplan.report.values import make, without
from kvplan.rules import chosen, rules
from kvplan.rules.comments import Unusable, comments
from kvplan.rules.limits import kv911_suppression_unusable as kv911
from kvplan.rules.limits.kv911_suppression_unusable import REMARK
from kvplan.rules.limits.kv912_launch_not_followed import CODE as NOT_FOLLOWED
from kvplan.rules.suppression import (
    Comment,
    Judge,
    SettingsEntry,
    Stale,
    by_comments,
    by_entries,
    divide,
    stale_comments,
    stale_entries,
    verdict,
)
from kvplan.rules.values import Severity

if TYPE_CHECKING:
    from kvplan.engine.values import Plan
    from kvplan.launch.values import Launch


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is scanned, and how its findings are chosen."""

    paths: tuple[str, ...]
    answers: Answers
    offline: bool = False
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    severities: Mapping[str, Severity] = field(default_factory=dict)
    """The severities that the operator gives to rules, by code."""
    additions: Additions = field(default_factory=Additions)
    """Models of the project's own."""
    include: Globs | None = None
    """The only files of directories that are looked at; a file given by name is looked at all the same."""
    exclude: Globs | None = None
    """Files that are never looked at, given by name or not."""
    suppressing: bool = True
    """Whether comments and entries suppress findings."""
    entries: tuple[SettingsEntry, ...] = ()
    """What the settings file suppresses."""
    baseline: Baseline | None = None
    """The findings that do not count because they are known."""

    @property
    def rules(self) -> frozenset[str]:
        """The codes of the rules that speak."""
        wanted = chosen(self.select) if self.select else frozenset(rule.code for rule in rules())
        return wanted - chosen(self.ignore) | {NOT_FOLLOWED}

    def wants(self, file: str) -> bool:
        """Whether a file is looked at."""
        if file == STDIN_NAME:
            return True
        if self.exclude is not None and self.exclude.match(file):
            return False
        return self.include is None or file in self.paths or self.include.match(file)


@dataclass(slots=True)
class Checker:
    """Plans launches; equal ones share a plan, as do their models."""

    question: Question
    plans: dict[object, Plan | str] = field(default_factory=dict)
    missing: dict[tuple[object, ...], str] = field(default_factory=dict)
    """Models that cannot be read, and why: each is asked for once."""
    comments: dict[str, tuple[Comment, ...]] = field(default_factory=dict)
    """The comments of the files read so far that suppress findings."""
    unusable: list[Stale] = field(default_factory=list)
    """Comments that are no use, of files without a launch that they could be told with."""

    def check(self, result: FileResult, unusable: Sequence[Unusable] = ()) -> list[ScannedLaunch | Unreadable]:
        """What comes of everything that one file holds, and of its comments that are no use."""
        remarks = _remarks(result, unusable)
        told: list[ScannedLaunch | Unreadable] = []
        for found in result.found:
            if isinstance(found, Unreadable):
                told.append(found)
                continue
            launch = resolved(found, self.question.answers, result.base)
            if isinstance(launch, Unreadable):
                told.append(launch)
                continue
            launch = replace(launch, remarks=(*launch.remarks, *remarks.get(id(found), ())))
            told.append(self._checked(found, launch))
        if not any(isinstance(one, ScannedLaunch) for one in told):
            self.unusable += [_useless(comment) for comment in unusable]
        return told

    def _checked(self, found: FoundLaunch, launch: Launch) -> ScannedLaunch | Unreadable:
        from kvplan.rules import regraded, run

        plan = self._plan(launch)
        if isinstance(plan, str):
            title = f"{found.around.kind} {found.around.name}".strip()
            return Unreadable(found.location.file, f"{title}: {plan}", found.location)
        if plan.launch.model == launch.model:
            plan = replace(plan, launch=launch)
        select, ignore = self.question.select or None, self.question.ignore or None
        findings = [
            finding if finding.location is not None else replace(finding, location=found.location)
            for finding in regraded(run(plan, select=select, ignore=ignore), self.question.severities)
        ]
        dismissed = bool(select or ignore) and any(finding.severity.rank == 0 for finding in run(plan))
        return ScannedLaunch(found, make(plan, findings, failure_dismissed=dismissed))

    def _plan(self, launch: Launch) -> Plan | str:
        """The plan of a launch, or why its model cannot be read."""
        key = _key(launch)
        known = self.plans.get(key)
        if known is None:
            known = self.plans[key] = self._planned(launch)
        return known

    def _planned(self, launch: Launch) -> Plan | str:
        from kvplan.cli.launching import files_of, served
        from kvplan.engine import plan

        files = files_of(launch)
        known = self.missing.get(files)
        if known is not None:
            return known
        try:
            verified, checkpoint, draft = served(
                launch, offline=self.question.offline, additions=self.question.additions
            )
        except InputError as error:
            self.missing[files] = str(error)
            return str(error)
        try:
            return plan(checkpoint, verified, draft=draft)
        except InputError as error:
            return str(error)


def _useless(comment: Unusable) -> Stale:
    where = f"{comment.place.file}:{comment.place.line}"
    return Stale(kv911.CODE, where, f"the comment suppresses nothing: {comment.reason}")


def _remarks(result: FileResult, unusable: Sequence[Unusable]) -> dict[int, list[Remark]]:
    """Comments that are no use, told with the first launch that stands behind them in their file, or the last."""
    told: dict[int, list[Remark]] = {}
    launches = [one for one in result.found if isinstance(one, FoundLaunch) and one.location.file == result.name]
    for comment in unusable if launches else ():
        behind = (one for one in launches if one.location.line >= comment.place.line)
        launch = next(behind, launches[-1])
        told.setdefault(id(launch), []).append(Remark(REMARK, "", comment.reason, comment.place))
    return told


def _key(launch: Launch) -> object:
    """Everything about a launch that its plan depends on: all but where things are written."""
    return (
        launch.model,
        launch.release,
        launch.hardware,
        tuple((name, repr(setting.value), setting.origin) for name, setting in sorted(launch.settings.items())),
        tuple(sorted(launch.environment.items())),
        tuple((refusal.option, refusal.message, refusal.exception) for refusal in launch.refusals),
        launch.available_kv_memory,
        launch.offline,
    )


def scan(
    question: Question, stdin: BinaryIO | None = None, progress: Callable[[str], None] | None = None
) -> ScanReport:
    """Everything under the paths. `progress` is told how far it is."""
    checker = Checker(question)
    told: list[ScannedLaunch | Unreadable] = []
    files = 0
    found = _wanted(question)
    maps = _config_maps(found)
    for candidate in found:
        if isinstance(candidate, Unreadable):
            told.append(candidate)
            continue
        files += 1
        told += checked(checker, candidate, stdin, maps)
        if progress is not None:
            progress(f"{files:,} of {len(found):,} files, {len(told):,} launches so far")
    severity = question.severities.get(NOT_FOLLOWED, Severity.WARNING)
    report = report_of(with_pairs(_once(told), question), files, severity)
    return judged(report, checker) if question.suppressing else report


def _wanted(question: Question) -> list[Candidate | Unreadable]:
    """The files to look at, each once, by the first of its names."""
    found: dict[object, Candidate | Unreadable] = {}
    for one in candidates(question.paths):
        name = one.file if isinstance(one, Unreadable) else one[0]
        if question.wants(name):
            found.setdefault(name if name == STDIN_NAME else absolute(name), one)
    return list(found.values())


def judged(report: ScanReport, checker: Checker) -> ScanReport:
    """The report without the findings that comments, settings and baseline suppress, in this order, and with those
    of the three that suppress nothing."""
    question, today = checker.question, date.today()
    judges: list[Judge] = [by_comments(checker.comments), by_entries(question.entries, today)]
    baseline = question.baseline
    known = None if baseline is None else baseline.known()
    if known is not None:
        judges.append(known.judge)
    launches = tuple(
        replace(one, report=without(one.report, *divide(one.report.findings, one.origin, judges)))
        for one in report.launches
    )
    lost = tuple(replace(one, suppressed=verdict(one.finding, one.origin, judges)) for one in report.lost)
    findings = tuple(counting(report))
    obscure = {one.unreadable.file for one in report.lost}
    comments = [comment for each in checker.comments.values() for comment in each]
    paths = [path for path in question.paths if path != STDIN]
    stale = [
        *(one for one in checker.unusable if one.rule in question.rules),
        *stale_comments(comments, findings, question.rules, obscure),
        *stale_entries(question.entries, findings, question.rules, [absolute(path) for path in paths], today, obscure),
    ]
    if baseline is not None and known is not None:
        stale += baseline.stale(known, question.paths, question.rules, obscure)
    return ScanReport(launches, lost, report.files, tuple(stale))


def _once(told: Sequence[ScannedLaunch | Unreadable]) -> list[ScannedLaunch | Unreadable]:
    """Each launch once, in its most telling surroundings: a script in a ConfigMap is found there and in its pod."""
    best: dict[object, ScannedLaunch | Unreadable] = {}
    for one in told:
        if isinstance(one, Unreadable):
            best.setdefault(one, one)
            continue
        key = identity(one.found)
        other = best.get(key)
        if not isinstance(other, ScannedLaunch) or knows_more(one.found, other.found):
            best[key] = one
    return list(best.values())


Candidate = tuple[str, Path | None]
ConfigMaps = dict[Path, dict[str, dict[str, Passage]]]
"""By directory, name and key."""


def _config_maps(found: Sequence[Candidate | Unreadable]) -> ConfigMaps:
    """What the ConfigMaps of each directory hold: pods of other files there may mount them."""
    maps: ConfigMaps = {}
    for candidate in found:
        if isinstance(candidate, Unreadable) or candidate[1] is None or kind_of(candidate[0]) != "yaml":
            continue
        text = read(*candidate)
        if text is not None and not isinstance(text, Unreadable):
            for name, contents in config_maps(text).items():
                maps.setdefault(candidate[1].parent, {})[name] = contents
    return maps


def checked(
    checker: Checker, candidate: Candidate, stdin: BinaryIO | None, maps: ConfigMaps | None = None
) -> Iterable[ScannedLaunch | Unreadable]:
    """What comes of one file."""
    name, path = candidate
    text = read(name, path, stdin)
    if text is None:
        return ()
    if isinstance(text, Unreadable):
        return (text,)
    usable, unusable = comments(text.source.name, text.source.text)
    checker.comments[text.source.name] = usable
    beside = (maps or {}).get(path.parent) if path is not None else None
    return checker.check(launches(text, checker.question.answers, beside), unusable)


def report_of(told: Sequence[ScannedLaunch | Unreadable], files: int, severity: Severity) -> ScanReport:
    """The report over all files; `severity` is that of what could not be followed."""
    return ScanReport(
        tuple(one for one in told if isinstance(one, ScannedLaunch)),
        tuple(NotFollowed(one, severity) for one in told if isinstance(one, Unreadable)),
        files,
    )


_ROLE_WORD = re.compile(r"[-_./ ]*(?:prefill|decode)(?:er|r)?(?:[-_./ ]?worker)?", re.IGNORECASE)


def with_pairs(told: Sequence[ScannedLaunch | Unreadable], question: Question) -> Sequence[ScannedLaunch | Unreadable]:
    """The same, with what is wrong between prefill and decode of one model added to decode's findings.

    They belong together when they have one name but for the role and stand in one file, or in files of one
    directory of which each holds one of the roles only.
    """
    members = [one for one in told if isinstance(one, ScannedLaunch) and _role(one) is not None]
    by_file = _grouped(members, _in_file)
    alone = [one for group in by_file.values() if len({_role(member) for member in group}) == 1 for one in group]
    by_directory = _grouped(alone, _in_directory)
    result: list[ScannedLaunch | Unreadable] = []
    for one in told:
        if isinstance(one, ScannedLaunch) and _role(one) == "decode":
            beside = [*by_file[_in_file(one)], *by_directory.get(_in_directory(one), ())]
            fillers = [other for other in beside if _role(other) == "prefill"]
            result.append(_paired(one, fillers, question))
        else:
            result.append(one)
    return result


Group = tuple[str, str, str]
"""Where it stands, its model, and its name without the role."""


def _grouped(
    launches: Iterable[ScannedLaunch], key: Callable[[ScannedLaunch], Group]
) -> dict[Group, list[ScannedLaunch]]:
    groups: dict[Group, list[ScannedLaunch]] = {}
    for launch in launches:
        groups.setdefault(key(launch), []).append(launch)
    return groups


def _in_file(launch: ScannedLaunch) -> Group:
    stem = _ROLE_WORD.sub("", launch.found.around.name).lower()
    return launch.found.location.file, launch.report.plan.checkpoint.name, stem


def _in_directory(launch: ScannedLaunch) -> Group:
    file, model, stem = _in_file(launch)
    return str(Path(file).parent), model, stem


def _role(launch: ScannedLaunch) -> str | None:
    """The role that a launch's name or its transfer config gives it."""
    transfer = launch.report.plan.launch.get("kv_transfer_config")
    role = transfer.get("kv_role") if isinstance(transfer, Mapping) else None
    said = {"kv_producer": "prefill", "kv_consumer": "decode"}.get(str(role))
    return said or launch.found.around.role


def _paired(reader: ScannedLaunch, fillers: Sequence[ScannedLaunch], question: Question) -> ScannedLaunch:
    from kvplan.rules import regraded, run_pair

    more = [
        finding if finding.location is not None else replace(finding, location=reader.found.location)
        for filler in fillers
        for finding in regraded(
            run_pair(
                filler.report.plan,
                reader.report.plan,
                select=question.select or None,
                ignore=question.ignore or None,
            ),
            question.severities,
        )
    ]
    if not more:
        return reader
    findings = [*reader.report.findings, *dict.fromkeys(more)]
    report = make(reader.report.plan, findings, failure_dismissed=bool(question.select or question.ignore))
    return replace(reader, report=report)
