"""What a sweep tells: one row a combination of values, and what changes from row to row, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from kvplan.engine.values import Plan
from kvplan.report.values import Report, Verdict, worst
from kvplan.rules.values import Severity

Value = str | int | float | tuple[str, ...] | tuple[int, ...] | None
"""A value of a row, such that equal ones mean the same."""


@dataclass(frozen=True, slots=True)
class Axis:
    """An option that varies, as it was written, and its values in order."""

    name: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Combination:
    """One combination: the value of each axis, and what comes of it.

    `problem` says why kvplan cannot use this combination; there is no report then.
    """

    options: Mapping[str, str]
    report: Report | None
    problem: str | None = None
    values: Mapping[str, Value] = field(default_factory=dict)
    """What `measured` reads off the report."""

    @property
    def words(self) -> str:
        """The combination as it would be typed: `-tp 4 --vllm-version 0.26.0`; empty where nothing varies."""
        return " ".join(filter(None, (_typed(name, value) for name, value in self.options.items())))


def _typed(name: str, value: str) -> str:
    """An axis with its value; the alternatives of --vary are words already, and an axis may have a number."""
    flag = name.partition(" ")[0]
    return value if flag == "--vary" else f"{flag} {value}"


class Explained(StrEnum):
    """How far history entries explain that a value changed between two releases."""

    ALONE = "alone"
    """Each of the causes, by itself, turns the old value into the new one."""
    TOGETHER = "together"
    """All causes at once do, and none can be left out."""
    PARTLY = "partly"
    """The causes change the value, but not to the new one."""
    NOT = "not"
    """No entry accounts for it."""
    OPTION = "option"
    """The rows differ in an option, not in the release: that is the cause."""


@dataclass(frozen=True, slots=True)
class Cause:
    """A history entry, or the tables that go with a release, behind a change."""

    name: str
    summary: str
    since: str | None = None
    until: str | None = None
    reference: str | None = None
    where: str | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a value changed."""

    explained: Explained
    causes: tuple[Cause, ...] = ()


@dataclass(frozen=True, slots=True)
class Change:
    """A value that differs between two rows."""

    name: str
    before: Value
    after: Value
    explanation: Explanation


@dataclass(frozen=True, slots=True)
class Comparison:
    """From one row to the next that differs from it in one option only. Rows by their positions."""

    before: int
    after: int
    option: str
    changes: tuple[Change, ...]
    problem: str | None = None
    """Why there is nothing to compare."""


@dataclass(frozen=True, slots=True)
class SweepReport:
    """A sweep, ready to be told. `steps` is None where no differences were asked for."""

    axes: tuple[Axis, ...]
    rows: tuple[Combination, ...]
    steps: tuple[Comparison, ...] | None = None

    @property
    def usable(self) -> tuple[tuple[Combination, Report], ...]:
        """The rows that something comes of, with their reports."""
        return tuple((row, row.report) for row in self.rows if row.report is not None)

    @property
    def verdict(self) -> Verdict:
        """The worst verdict; a combination that cannot be used is an error."""
        verdicts = [Verdict.ERROR if row.report is None else row.report.verdict for row in self.rows]
        return worst(verdicts)


def outcome(plan: Plan) -> str:
    """`starts`, or where and with what start-up ends."""
    error = plan.stops_with
    if error is None:
        return "starts"
    return f"stops at {error.stage}: {error.code or error.type}"


def measured(report: Report) -> dict[str, Value]:
    """The values of a row that are compared, by name. Sizes in bytes, lengths in tokens; None where unknown."""
    plan = report.plan
    settings, capacity = plan.settings, plan.capacity
    dtype = None
    if settings is not None:
        after = settings.cache_dtype_after_load
        dtype = settings.model_dtype if after == "auto" else after
    serious = {finding.rule for finding in report.findings if finding.severity is not Severity.NOTE}
    return {
        "outcome": outcome(plan),
        "findings": tuple(sorted(serious)),
        "cache_dtype": dtype,
        "layer_dtypes": tuple(sorted({layer.cache_dtype for layer in plan.layers if layer.cache_dtype})),
        "backends": tuple(sorted({layer.backend for layer in plan.layers if layer.backend})),
        "block_size": None if settings is None else settings.block_size,
        "page_bytes": tuple(sorted({layer.page_bytes for layer in plan.layers})),
        "bytes_per_block": None if capacity is None else capacity.bytes_per_block,
        "max_model_len": None if settings is None else settings.max_model_len,
        "max_num_batched_tokens": None if settings is None else settings.max_num_batched_tokens,
        "num_blocks": None if capacity is None else capacity.num_blocks,
        "tokens": None if capacity is None else capacity.tokens,
        "max_concurrency": None if capacity is None else capacity.max_concurrency,
        "longest_request_tokens": None if capacity is None else capacity.longest_request_tokens,
        "needed_bytes": None if capacity is None else capacity.needed_bytes,
    }
