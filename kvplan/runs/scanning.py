"""From paths to a scan's report: find launches, plan each kind of launch once, and let the rules speak.

One process does it: a plan costs some milliseconds, about what it takes to hand a plan with its layers from one
process to another, so that a pool would win nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from kvplan.errors import InputError, described
from kvplan.files import Ground, ground_of
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
    distinct,
    kind_of,
    launches,
    read,
)
from kvplan.launch.values import Remark
from kvplan.report.scanvalues import NotFollowed, ScannedLaunch, ScanReport
from kvplan.report.values import make, without
from kvplan.rules.comments import Unusable, comments
from kvplan.rules.limits import kv911_suppression_unusable as kv911
from kvplan.rules.limits.kv911_suppression_unusable import REMARK
from kvplan.rules.limits.kv912_launch_not_followed import CODE as NOT_FOLLOWED
from kvplan.rules.limits.kv920_model_read_from_folder import CODE as FOLDER_RULE
from kvplan.rules.limits.kv920_model_read_from_folder import REMARK as FOLDER
from kvplan.rules.suppression import (
    Comment,
    Judge,
    Stale,
    by_comments,
    by_entries,
    divide,
    stale_comments,
    stale_entries,
    verdict,
)
from kvplan.rules.values import Severity
from kvplan.runs.baseline import Baseline, counting
from kvplan.runs.budget import FILE, PLANNING, READING, OutOfTime, within
from kvplan.runs.judging import Choice, dismissed, findings_of, stated
from kvplan.runs.launching import Loader, Sources
from kvplan.runs.pairing import with_pairs
from kvplan.runs.progress import Observer, Part, Progress, nobody

if TYPE_CHECKING:
    from kvplan.engine.values import Plan
    from kvplan.launch.values import Launch


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanRequest:
    """What is scanned, and how its findings are chosen."""

    paths: tuple[str, ...]
    answers: Answers = field(default_factory=Answers)
    choice: Choice = field(default_factory=Choice)
    sources: Sources = field(default_factory=Sources)
    include: Globs | None = None
    """The only files of directories that are looked at; a file given by name is looked at all the same."""
    exclude: Globs | None = None
    """Files that are never looked at, given by name or not."""
    baseline: Baseline | None = None
    """The findings that do not count because they are known."""
    debug: bool = False
    """Whether what nobody foresaw ends the scan, instead of counting as not followed."""

    @property
    def ground(self) -> Ground:
        """What may be read."""
        return ground_of(path for path in self.paths if path != STDIN)

    @property
    def trusted(self) -> frozenset[str]:
        """Models that the operator names, wherever their files lie."""
        return frozenset(self.answers.models.values())

    @property
    def rules(self) -> frozenset[str]:
        """The codes of the rules that speak; what cannot be followed is always told."""
        return self.choice.codes | {NOT_FOLLOWED}

    def wants(self, file: str) -> bool:
        """Whether a file is looked at."""
        if file == STDIN_NAME:
            return True
        if self.exclude is not None and self.exclude.match(file):
            return False
        return self.include is None or file in self.paths or self.include.match(file)


@dataclass(frozen=True, slots=True)
class Scanned:
    """What comes of a scan."""

    report: ScanReport

    @property
    def notices(self) -> tuple[str, ...]:
        """Folders that stand in for models; comments, entries and rows of the baseline that suppress nothing any
        more."""
        launches = self.report.launches
        folders = (one.message for launch in launches for one in launch.report.findings if one.rule == FOLDER_RULE)
        stale = (f"{stale.where}: stale: {stale.text}" for stale in self.report.stale)
        return (*dict.fromkeys(folders), *stale)

    @property
    def nothing(self) -> str | None:
        """Why there is no launch to tell of; None where there is one, or where all that was found is suppressed."""
        report = self.report
        if report.launches or (report.lost and not report.unreadable):
            return None
        return "none of what was found could be followed" if report.unreadable else "no vLLM launch found"


@dataclass(slots=True)
class Checker:
    """Plans launches; equal ones share a plan, as do their models."""

    request: ScanRequest
    loader: Loader
    plans: dict[object, Plan | str] = field(default_factory=dict)
    """The plan of a launch, or why its model cannot be read."""
    comments: dict[str, tuple[Comment, ...]] = field(default_factory=dict)
    """The comments of the files read so far that suppress findings."""
    silent: bool = True
    """Whether nothing was said yet of a settings file."""
    unusable: list[Stale] = field(default_factory=list)
    """Comments that are no use, of files without a launch that they could be told with."""

    def check(self, result: FileResult, unusable: Sequence[Unusable] = ()) -> list[ScannedLaunch | Unreadable]:
        """What comes of everything that one file holds, and of its comments that are no use."""
        remarks = _remarks(result, unusable)
        told: list[ScannedLaunch | Unreadable] = []
        until = time.process_time() + FILE
        for found in result.found:
            if isinstance(found, Unreadable):
                told.append(found)
                continue
            left = until - time.process_time()
            try:
                if left <= 0:
                    raise OutOfTime  # noqa: TRY301 - the same as running out of it
                with within(min(left, PLANNING)):
                    told.append(self._told(found, result, remarks.get(id(found), ())))
            except OutOfTime:
                reason = f"not planned: it takes more than {PLANNING:g} seconds of computing, or its file {FILE:g}"
                told.append(Unreadable(found.location.file, reason, found.location))
        if not any(isinstance(one, ScannedLaunch) for one in told):
            self.unusable += [_useless(comment) for comment in unusable]
        return told

    def _told(self, found: FoundLaunch, result: FileResult, remarks: Sequence[Remark]) -> ScannedLaunch | Unreadable:
        """What comes of one launch, with these remarks on it."""
        launch = resolved(found, self.request.answers, result.base, result.ground)
        if isinstance(launch, Unreadable):
            return launch
        return self._checked(found, replace(launch, remarks=(*launch.remarks, *remarks)))

    def _checked(self, found: FoundLaunch, launch: Launch) -> ScannedLaunch | Unreadable:
        choice = self.request.choice
        plan = self._plan(launch)
        if isinstance(plan, str):
            title = f"{found.around.kind} {found.around.name}".strip()
            return Unreadable(found.location.file, f"{title}: {plan}", found.location)
        if plan.launch.model == launch.model:
            read = tuple(remark for remark in plan.launch.remarks if remark.kind == FOLDER)
            plan = replace(plan, launch=replace(launch, remarks=(*launch.remarks, *read)))
        findings = [
            finding if finding.location is not None else replace(finding, location=found.location)
            for finding in (*findings_of(plan, choice), *stated(choice if self.silent else Choice()))
        ]
        self.silent = False
        return ScannedLaunch(found, make(plan, findings, failure_dismissed=dismissed(plan, choice)))

    def _plan(self, launch: Launch) -> Plan | str:
        """The plan of a launch, or why its model cannot be read."""
        key = _key(launch)
        known = self.plans.get(key)
        if known is None:
            known = self.plans[key] = self._planned(launch)
        return known

    def _planned(self, launch: Launch) -> Plan | str:
        from kvplan.engine import plan

        try:
            loaded = self.loader.load(launch)
            return plan(loaded.checkpoint, loaded.launch, draft=loaded.draft)
        except InputError as error:
            return str(error)
        except Exception as error:  # one launch that kvplan fails on must not take the others with it
            if self.request.debug:
                raise
            return described(error)


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


def scan(request: ScanRequest, stdin: BinaryIO | None = None, observer: Observer = nobody) -> Scanned:
    """Everything under the paths; `stdin` is what the path `-` means.

    Raises InputError for a path that does not exist and for rules that are none.
    """
    ground = request.ground
    checker = Checker(request, Loader(replace(request.sources, ground=ground, trusted=request.trusted)))
    told: list[ScannedLaunch | Unreadable] = []
    files = 0
    found = _wanted(request)
    maps = _config_maps(found)
    for candidate in found:
        if isinstance(candidate, Unreadable):
            told.append(candidate)
            continue
        files += 1
        told += _guarded(checker, candidate, stdin, maps)
        observer(Progress(Part.FILES, files, len(found), len(told)))
    choice = request.choice
    paired = with_pairs(distinct(told, lambda one: one if isinstance(one, Unreadable) else one.found), choice)
    report = ScanReport(
        tuple(one for one in paired if isinstance(one, ScannedLaunch)),
        tuple(
            NotFollowed(one, choice.severities.get(NOT_FOLLOWED, Severity.WARNING))
            for one in paired
            if isinstance(one, Unreadable)
        ),
        files,
    )
    return Scanned(_judged(report, checker) if choice.suppressing else report)


def _wanted(request: ScanRequest) -> list[Candidate | Unreadable]:
    """The files to look at, each once, by the first of its names."""
    found: dict[object, Candidate | Unreadable] = {}
    for one in candidates(request.paths, request.ground):
        name = one.file if isinstance(one, Unreadable) else one[0]
        if request.wants(name):
            found.setdefault(name if name == STDIN_NAME else absolute(name), one)
    return list(found.values())


def _judged(report: ScanReport, checker: Checker) -> ScanReport:
    """The report without the findings that comments, settings and baseline suppress, in this order, and with those
    of the three that suppress nothing."""
    request = checker.request
    choice, baseline = request.choice, request.baseline
    judges: list[Judge] = [by_comments(checker.comments), by_entries(choice.entries, choice.today)]
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
    paths = [absolute(path) for path in request.paths if path != STDIN]
    stale = [
        *(one for one in checker.unusable if one.rule in request.rules),
        *stale_comments(comments, findings, request.rules, obscure),
        *stale_entries(choice.entries, findings, request.rules, paths, choice.today, obscure),
    ]
    if baseline is not None and known is not None:
        stale += baseline.stale(known, request.paths, request.rules, obscure)
    return ScanReport(launches, lost, report.files, tuple(stale))


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
        if text is None or isinstance(text, Unreadable):
            continue
        # What takes too long, or fails, is told where the file itself is read.
        with suppress(OutOfTime, Exception), within(READING):
            for name, contents in config_maps(text).items():
                maps.setdefault(candidate[1].parent, {})[name] = contents
    return maps


def _guarded(
    checker: Checker, candidate: Candidate, stdin: BinaryIO | None, maps: ConfigMaps
) -> Iterable[ScannedLaunch | Unreadable]:
    """What comes of one file; where kvplan itself fails on it, that it did, and where it takes too long, that."""
    try:
        return _checked(checker, candidate, stdin, maps)
    except OutOfTime:
        return (Unreadable(candidate[0], f"not followed within {READING:g} seconds of computing"),)
    except Exception as error:  # one file must not take the others with it
        if checker.request.debug:
            raise
        return (Unreadable(candidate[0], described(error)),)


def _checked(
    checker: Checker, candidate: Candidate, stdin: BinaryIO | None, maps: ConfigMaps
) -> Iterable[ScannedLaunch | Unreadable]:
    """What comes of one file."""
    name, path = candidate
    text = read(name, path, stdin, checker.request.ground)
    if text is None:
        return ()
    if isinstance(text, Unreadable):
        return (text,)
    beside = maps.get(path.parent) if path is not None else None
    with within(READING):
        usable, unusable = comments(text.source.name, text.source.text)
        result = launches(text, checker.request.answers, beside)
    checker.comments[text.source.name] = usable
    return checker.check(result, unusable)
