"""From combinations to a sweep's report: a plan for each, and what differs."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kvplan.errors import InputError
from kvplan.report.sweepvalues import (
    Change,
    Combination,
    Comparison,
    Explained,
    Explanation,
    SweepReport,
    Value,
    measured,
)
from kvplan.runs.combining import RELEASE, Combinations
from kvplan.runs.judging import Choice, report_of
from kvplan.runs.launching import Loader, launch_of, weighed
from kvplan.runs.progress import Observer, Part, Progress, nobody

if TYPE_CHECKING:
    from kvplan.launch.values import Launch
    from kvplan.report.values import Report
    from kvplan.runs.causes import Explainer


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRequest:
    """What is compared."""

    combinations: Combinations
    choice: Choice = field(default_factory=Choice)
    diff: bool = False
    """Whether it is told what changes from row to row, and why."""


@dataclass(frozen=True, slots=True)
class Swept:
    """What comes of a sweep."""

    report: SweepReport
    notices: tuple[str, ...] = ()


def sweep(request: SweepRequest, observer: Observer = nobody) -> Swept:
    """All rows, and with `diff` what changes between successive ones. Combinations of one model share its checkpoint.

    Raises InputError when no combination can be used.
    """
    return _Sweeper(request, observer, Loader(request.combinations.request.sources)).run()


@dataclass(slots=True)
class _Sweeper:
    request: SweepRequest
    observer: Observer
    loader: Loader
    notices: dict[str, None] = field(init=False, default_factory=dict)
    """Each once, in order."""

    def run(self) -> Swept:
        wanted = self.request.combinations
        rows: list[Combination] = []
        launches: list[Launch | None] = []
        combined = wanted.all()
        for number, (options, asked) in enumerate(combined):
            self.observer(Progress(Part.COMBINATIONS, number, len(combined)))
            launch: Launch | None = None
            try:
                launch = launch_of(asked)
                report = self._report(launch)
                rows.append(Combination(options, report, values=measured(report)))
            except InputError as error:
                launch = None
                self.notices |= dict.fromkeys(getattr(error, "__notes__", ()))
                rows.append(Combination(options, None, " ".join(str(error).split())))
            launches.append(launch)
        if all(row.report is None for row in rows):
            nothing = InputError(rows[0].problem or "no combination can be used")
            for notice in self.notices:
                nothing.add_note(notice)
            raise nothing
        steps = self._steps(rows, launches) if self.request.diff else None
        return Swept(SweepReport(wanted.axes, tuple(rows), steps), tuple(self.notices))

    def _report(self, launch: Launch) -> Report:
        from kvplan.engine import plan

        loaded = self.loader.load(launch)
        self.notices |= dict.fromkeys(loaded.notices)
        checkpoint = weighed(loaded.checkpoint, self.request.combinations.request.weights)
        return report_of(plan(checkpoint, loaded.launch, draft=loaded.draft), self.request.choice)

    def _steps(self, rows: Sequence[Combination], launches: Sequence[Launch | None]) -> tuple[Comparison, ...]:
        steps = []
        for at, (row, following) in enumerate(itertools.pairwise(rows)):
            self.observer(Progress(Part.STEPS, at, len(rows) - 1))
            different = [name for name in row.options if row.options[name] != following.options[name]]
            if len(different) == 1:
                steps.append(self._step(at, different[0], (row, following), (launches[at], launches[at + 1])))
        return tuple(steps)

    def _measured(self, launch: Launch) -> Mapping[str, Value]:
        return measured(self._report(launch))

    def _step(
        self, at: int, option: str, rows: tuple[Combination, Combination], launches: tuple[Launch | None, Launch | None]
    ) -> Comparison:
        from kvplan.runs.causes import Explainer

        (row, following), (older, newer) = rows, launches
        if older is None or newer is None:
            return Comparison(at, at + 1, option, (), row.problem or following.problem)
        explainer = None
        if option == RELEASE:
            explainer = Explainer(older, newer, self._measured)
        changes = tuple(
            Change(name, before, following.values[name], _why(explainer, name, rows))
            for name, before in row.values.items()
            if before != following.values[name]
        )
        return Comparison(at, at + 1, option, changes)


def _why(explainer: Explainer | None, name: str, rows: tuple[Combination, Combination]) -> Explanation:
    if explainer is None:
        return Explanation(Explained.OPTION)
    return explainer.explain(name, rows[0].values[name], rows[1].values[name])
