"""From options with several values to a sweep's report: combinations, a plan for each, and what differs."""

from __future__ import annotations

import itertools
import math
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from kvplan.checkpoint.speculators import Speculator
from kvplan.cli.launching import Asked, checkpoints_of, files_of, followed, launch_of, say, weighed
from kvplan.cli.words import Words
from kvplan.errors import InputError
from kvplan.launch.options import Kind, Option, lifetime_of, table_of
from kvplan.releases import KNOWN, Release
from kvplan.report.sweepvalues import (
    Axis,
    Change,
    Combination,
    Comparison,
    Explained,
    Explanation,
    SweepReport,
    measured,
)

if TYPE_CHECKING:
    from kvplan.checkpoint.additions import Additions
    from kvplan.checkpoint.values import Checkpoint
    from kvplan.cli.causes import Explainer
    from kvplan.engine.values import Plan
    from kvplan.launch.values import Launch
    from kvplan.report.values import Report

MOST = 1000
"""Combinations of one sweep."""

RELEASE = "--vllm-version"
GPU = "--gpu"
MEMORY = "--available-kv-memory"

_WHOLE = frozenset(
    {
        Kind.BOOL,
        Kind.TRUE,
        Kind.HELP,
        Kind.JSON,
        Kind.PARSED_JSON,
        Kind.DATACLASS,
        Kind.JSON_OR_STR,
        Kind.DEVICE_IDS,
        Kind.LORA,
    }
)
"""Kinds of options without a value, or whose own values have commas."""

_COMMA = re.compile(r"(?<!\\),")


def split_values(flag: str, text: str) -> tuple[str, ...]:
    r"""The values in `text`, without repetitions: `auto,fp8` is two, `a\,b` is the one value `a,b`.

    What looks like JSON is one value. Raises InputError for an empty value.
    """
    if text.lstrip().startswith(("{", "[")):
        return (text,)
    values = [part.strip() for part in _COMMA.split(text)]
    if len(values) > 1 and not all(values):
        raise InputError(f"{flag} {text[:80]!r}: there is an empty value between the commas")
    return tuple(dict.fromkeys(value.replace("\\,", ",") for value in values))


def releases(text: str) -> str:
    """`--releases` as values of --vllm-version: `all`, a list, or a span such as `0.19..0.26` (both inclusive)."""
    from kvplan.releases import resolve

    named: list[str] = []
    for part in split_values("--releases", text):
        first, dots, last = part.partition("..")
        if part.lower() == "all":
            named += KNOWN
        elif dots:
            start = KNOWN.index(resolve(first).acts_as) if first else 0
            end = KNOWN.index(resolve(last).acts_as) if last else len(KNOWN) - 1
            if end < start:
                raise InputError(f"--releases {part}: the span runs backwards")
            named += KNOWN[start : end + 1]
        else:
            named.append(part)
    return ",".join(dict.fromkeys(named))


@dataclass(frozen=True, slots=True)
class _Word:
    """A word of the launch; with an axis its value stands behind `text`, or its words in its place."""

    text: str
    axis: str | None = None
    words: bool = False

    def filled(self, options: dict[str, str]) -> list[str]:
        if self.axis is None:
            return [self.text]
        value = options[self.axis]
        return shlex.split(value) if self.words else [self.text + value]


@dataclass(frozen=True, slots=True)
class Combinations:
    """The combinations of a sweep, the release varying fastest."""

    question: Asked
    axes: tuple[Axis, ...]
    words: tuple[_Word, ...]

    def all(self) -> list[tuple[dict[str, str], Asked]]:
        """Each combination: the value of each axis, and the launch asked for."""
        names = [axis.name for axis in self.axes]
        combined = itertools.product(*(axis.values for axis in self.axes))
        chosen = (dict(zip(names, values, strict=True)) for values in combined)
        return [(options, self._asked(options)) for options in chosen]

    def _asked(self, options: dict[str, str]) -> Asked:
        question = self.question
        words = tuple(text for word in self.words for text in word.filled(options))
        return replace(
            question,
            words=Words(words, question.words.literal),
            vllm_version=options.get(RELEASE, question.vllm_version),
            gpu=options.get(GPU, question.gpu),
            available_kv_memory=options.get(MEMORY, question.available_kv_memory),
        )


def combinations(question: Asked, vary: Sequence[str] = ()) -> Combinations:
    """The combinations that the commas in `question` and the alternatives of `vary` (`WORDS | WORDS`) mean.

    Axes come in the order GPU, memory, vLLM's options as written, alternatives, release. Raises InputError for an
    empty value, or more than `MOST` combinations.
    """
    axes: list[Axis] = []
    question = replace(
        question,
        gpu=_own(axes, GPU, question.gpu),
        available_kv_memory=_own(axes, MEMORY, question.available_kv_memory),
    )
    words = _words(axes, question.words.options)
    for text in vary:
        values = tuple(dict.fromkeys(part.strip() for part in text.split("|")))
        if len(values) < 2:
            raise InputError(f"--vary {text[:80]!r}: give alternatives with | between, such as '--enforce-eager | '")
        for value in values:
            _check_quotes(value)
        name = "--vary" if len(vary) == 1 else f"--vary {len(axes) + 1}"
        axes.append(Axis(name, values))
        words.append(_Word("", name, words=True))
    release = _own(axes, RELEASE, question.vllm_version)
    count = math.prod(len(axis.values) for axis in axes)
    if count > MOST:
        product = " x ".join(f"{len(axis.values)} of {axis.name}" for axis in axes)
        raise InputError(f"{count:,} combinations ({product}) are more than {MOST:,}: give fewer values at once")
    return Combinations(replace(question, vllm_version=release or "latest"), tuple(axes), tuple(words))


def _check_quotes(value: str) -> None:
    try:
        shlex.split(value)
    except ValueError as error:
        raise InputError(f"--vary {value[:80]!r}: {error}") from None


def _own(axes: list[Axis], flag: str, text: str | None) -> str | None:
    """One of kvplan's own options: its only value, or an axis."""
    if text is None:
        return None
    values = split_values(flag, text)
    if len(values) > 1:
        axes.append(Axis(flag, values))
    return values[0]


def _words(axes: list[Axis], options: Sequence[str]) -> list[_Word]:
    """The launch's words, those with several values as axes."""
    told: list[_Word] = []
    flag: str | None = None
    for word in options:
        if flag is not None and not word.startswith("--"):
            told.append(_value(axes, flag, "", word))
            flag = None
            continue
        flag = None
        name, equals, value = word.partition("=")
        if not name.startswith("-") or not _splits(name):
            told.append(_Word(word))
        elif equals:
            told.append(_value(axes, name, f"{name}=", value))
        else:
            told.append(_Word(word))
            flag = name
    return told


def _value(axes: list[Axis], flag: str, prefix: str, text: str) -> _Word:
    values = split_values(flag, text)
    if len(values) == 1:
        return _Word(prefix + values[0])
    taken = {axis.name for axis in axes}
    name = flag if flag not in taken else f"{flag} ({len(axes) + 1})"
    axes.append(Axis(name, values))
    return _Word(prefix, name)


def _splits(flag: str) -> bool:
    """Whether a comma in the value of `flag` separates values: not in lists and JSON, which have commas."""
    spelled = f"--{flag[2:].replace('_', '-')}" if flag.startswith("--") else flag
    whole, dot, _ = spelled.partition(".")
    option = _option(whole)
    if option is None:
        return False
    return bool(dot) or (option.kind not in _WHOLE and not option.is_list and not option.append)


def _option(flag: str) -> Option | None:
    """The option as the newest release that has it knows it."""
    lifetime = lifetime_of(flag)
    return None if lifetime is None else table_of(Release(lifetime.last, lifetime.last)).by_flag.get(flag)


@dataclass(slots=True)
class Sweeper:
    """Plans combinations; those of one model share its checkpoint. `judge` turns a plan into a report."""

    judge: Callable[[Plan], Report]
    offline: bool
    additions: Additions | None = None
    """Models of the project's own."""
    weights: str | None = None
    """The size of the model's weights, where it was given."""
    _checkpoints: dict[object, tuple[Checkpoint, Checkpoint | None] | InputError] = field(
        init=False, default_factory=dict
    )

    def sweep(self, wanted: Combinations, *, diff: bool, progress: Callable[[str], None] | None = None) -> SweepReport:
        """All rows, and with `diff` what changes between successive ones. `progress` is told how far it is.

        Raises InputError when no combination can be used.
        """
        rows: list[Combination] = []
        launches: list[Launch | None] = []
        combined = wanted.all()
        for number, (options, question) in enumerate(combined):
            if progress is not None:
                progress(f"{number:,} of {len(combined):,} combinations so far")
            launch: Launch | None = None
            try:
                launch = launch_of(question)
                report = self._report(launch)
                rows.append(Combination(options, report, values=measured(report)))
            except InputError as error:
                launch = None
                rows.append(Combination(options, None, " ".join(str(error).split())))
            launches.append(launch)
        if all(row.report is None for row in rows):
            raise InputError(rows[0].problem or "no combination can be used")
        steps = self._steps(rows, launches, progress) if diff else None
        return SweepReport(wanted.axes, tuple(rows), steps)

    def _report(self, launch: Launch) -> Report:
        from kvplan.engine import plan

        launch, checkpoint, draft = self._loaded(launch)
        checkpoint = weighed(checkpoint, self.weights)
        return self.judge(plan(checkpoint, launch, draft=draft))

    def _loaded(self, launch: Launch) -> tuple[Launch, Checkpoint, Checkpoint | None]:
        key = files_of(launch)
        known = self._checkpoints.get(key)
        if known is None:
            try:
                known = checkpoints_of(launch, offline=self.offline, additions=self.additions, notice=say)
            except InputError as error:
                known = error
            self._checkpoints[key] = known
        if isinstance(known, Speculator):
            return self._loaded(followed(launch, known, None))
        if isinstance(known, InputError):
            raise InputError(str(known))
        return launch, *known

    def _steps(
        self,
        rows: Sequence[Combination],
        launches: Sequence[Launch | None],
        progress: Callable[[str], None] | None,
    ) -> tuple[Comparison, ...]:
        steps = []
        for at, (row, following) in enumerate(itertools.pairwise(rows)):
            if progress is not None:
                progress(f"{at:,} of {len(rows) - 1:,} steps explained so far")
            different = [name for name in row.options if row.options[name] != following.options[name]]
            if len(different) == 1:
                steps.append(self._step(at, different[0], (row, following), (launches[at], launches[at + 1])))
        return tuple(steps)

    def _step(
        self, at: int, option: str, rows: tuple[Combination, Combination], launches: tuple[Launch | None, Launch | None]
    ) -> Comparison:
        from kvplan.cli.causes import Explainer

        (row, following), (older, newer) = rows, launches
        if older is None or newer is None:
            return Comparison(at, at + 1, option, (), row.problem or following.problem)
        explainer = None
        if option == RELEASE:
            explainer = Explainer(older, newer, lambda launch: measured(self._report(launch)))
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
