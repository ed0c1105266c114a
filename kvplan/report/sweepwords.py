"""A sweep in words, as its text, its Markdown and its page share them: columns, cells, differences and causes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kvplan.engine.values import Plan
from kvplan.report.sweepvalues import (
    Axis,
    Cause,
    Change,
    Combination,
    Comparison,
    Explained,
    Explanation,
    SweepReport,
    Value,
)
from kvplan.report.values import Report
from kvplan.report.words import size
from kvplan.rules.values import Finding, Severity
from kvplan.words import counted, number

RESULTS = ("verdict", "stops at", "cache dtype", "page B", "block", "tokens", "concurrency", "longest")
NUMBERS = frozenset({"page B", "block", "tokens", "concurrency", "longest"})
"""Headings of figures."""

UNUSABLE = "unusable"
NOTHING = "(nothing)"
"""What an alternative without words is called."""

ONE = "one combination: give several values to compare, such as --releases all or --kv-cache-dtype auto,fp8"
"""Said where nothing varies."""

_NONE = "-"

LABELS = {
    "outcome": "outcome",
    "findings": "findings",
    "cache_dtype": "cache dtype",
    "layer_dtypes": "dtypes of layers",
    "backends": "backends",
    "block_size": "block size",
    "page_bytes": "page bytes",
    "bytes_per_block": "bytes per block",
    "max_model_len": "max model len",
    "max_num_batched_tokens": "batched tokens",
    "num_blocks": "blocks",
    "tokens": "tokens",
    "max_concurrency": "concurrency",
    "longest_request_tokens": "longest request",
    "needed_bytes": "one request needs",
}
"""What the values of a row are called."""

_PLAIN = frozenset({"tokens", "max_concurrency", "longest_request_tokens", "num_blocks", "needed_bytes"})
"""Values of which the relative change tells something."""

_UNKNOWN: tuple[Value, ...] = (None, ())
_BYTES = frozenset({"page_bytes", "bytes_per_block", "needed_bytes"})


def models(report: SweepReport) -> str:
    """The names of the models that the rows are about."""
    return ", ".join(dict.fromkeys(found.plan.checkpoint.name for _, found in report.usable))


def sum_of(report: SweepReport) -> str:
    """`8 combinations, 2 of which vLLM does not start`."""
    told = counted(len(report.rows), "combination")
    failing = sum(found.plan.stops_with is not None for _, found in report.usable)
    unusable = len(report.rows) - len(report.usable)
    if failing:
        told += f", {failing:,} of which vLLM does not start"
    if unusable:
        told += f", {unusable:,} of which cannot be used"
    suppressed = sum(len(found.suppressed) for _, found in report.usable)
    return f"{told}; {counted(suppressed, 'finding')} suppressed" if suppressed else told


def circumstances(report: SweepReport) -> str:
    """What all rows have in common: release, GPU and memory where they do not vary."""
    varied = {axis.name for axis in report.axes}
    told = []
    for _, found in report.usable[:1]:
        launch = found.plan.launch
        if "--vllm-version" not in varied:
            told.append(f"vLLM {launch.release}")
        if "--gpu" not in varied:
            told.append(f"{launch.hardware.name}{', assumed' if launch.hardware.assumed else ''}")
        if "--available-kv-memory" not in varied:
            told.append(_memory(found.plan))
    return "; ".join(told)


def _memory(plan: Plan) -> str:
    memory, capacity = plan.launch.available_kv_memory, plan.capacity
    if memory is not None:
        return f"{size(memory)} for the cache of a GPU"
    if capacity is None or capacity.available_bytes is None:
        return "memory for the cache unknown"
    if capacity.estimate is None:
        return f"{size(capacity.available_bytes)} for the cache of a GPU"
    return "memory for the cache estimated: tokens, concurrency and longest request are upper bounds"


def heading(axis: str) -> str:
    """A short name of an option that varies."""
    return "vLLM" if axis == "--vllm-version" else axis.lstrip("-")


def named(options: Mapping[str, str]) -> str:
    """`gpu h200; kv-cache-dtype fp8`."""
    return "; ".join(f"{heading(name)} {value or NOTHING}" for name, value in options.items())


def values(row: Combination) -> str:
    """The row's own values without the options' names: `h200, 8, 0.26.0`."""
    return ", ".join(value or NOTHING for value in row.options.values())


def cells(row: Combination) -> dict[str, str]:
    """The cells of a row by option and heading."""
    told = {name: value or NOTHING for name, value in row.options.items()}
    if row.report is None:
        return {**told, **dict.fromkeys(RESULTS, ""), "verdict": UNUSABLE}
    values, error = row.values, row.report.plan.stops_with
    pages = values["page_bytes"]
    return {
        **told,
        "verdict": str(row.report.verdict),
        "stops at": "" if error is None else str(error.stage),
        "cache dtype": _told("cache_dtype", values["cache_dtype"]),
        "page B": number(max(map(int, pages))) if isinstance(pages, tuple) and pages else _NONE,
        "block": _told("block_size", values["block_size"]),
        "tokens": _told("tokens", values["tokens"]),
        "concurrency": _told("max_concurrency", values["max_concurrency"]),
        "longest": _told("longest_request_tokens", values["longest_request_tokens"]),
    }


def table(report: SweepReport) -> dict[str, list[str]]:
    """The cells of all rows by option and heading; columns with nothing in them are left out."""
    rows = [cells(row) for row in report.rows]
    columns = (*(axis.name for axis in report.axes), *RESULTS)
    found = {name: [row[name] for row in rows] for name in columns}
    return {name: column for name, column in found.items() if name not in RESULTS or not _empty(column)}


def _empty(column: Iterable[str]) -> bool:
    return all(cell in ("", _NONE) for cell in column)


def problems(report: SweepReport) -> dict[str, list[Combination]]:
    """The rows that cannot be used, by the reason."""
    found: dict[str, list[Combination]] = {}
    for row in report.rows:
        if row.problem is not None:
            found.setdefault(row.problem, []).append(row)
    return found


@dataclass(frozen=True, slots=True)
class Alike:
    """What one rule finds in several rows: the finding of the first of them stands for all."""

    finding: Finding
    rows: tuple[Combination, ...]
    worded: bool
    """Whether all of them say the same."""


def alike(report: SweepReport, least: Severity = Severity.NOTE) -> tuple[Alike, ...]:
    """The findings as bad as `least`, once a rule and severity, worst first."""
    found: dict[tuple[int, str], list[tuple[Combination, Finding]]] = {}
    for row, told in report.usable:
        for finding in told.findings:
            if finding.severity.rank <= least.rank:
                found.setdefault((finding.severity.rank, finding.rule), []).append((row, finding))
    return tuple(_alike(pairs) for _, pairs in sorted(found.items(), key=lambda item: item[0]))


def _alike(pairs: Sequence[tuple[Combination, Finding]]) -> Alike:
    rows = {id(row): row for row, _ in pairs}
    words = {(finding.message, finding.fix) for _, finding in pairs}
    return Alike(pairs[0][1], tuple(rows.values()), len(words) == 1)


def where(report: SweepReport, one: Alike) -> str:
    """In which rows a rule finds something, and for which of them it is worded where the words differ."""
    told = among(report, one.rows)
    return told if one.worded or " such as " in told else f"{told} (told for {values(one.rows[0])})"


def among(report: SweepReport, rows: Sequence[Combination]) -> str:
    """Which rows these are, by what they have in common: `all`, `vLLM 0.25.1; tp 4, 8`, several such with `|` between,
    or `3 of 8, such as …`."""
    if len(rows) == len(report.rows):
        return "all"
    whole = _common(report, rows)
    if whole is not None:
        return whole
    divided = [_common_by(report, rows, axis) for axis in report.axes]
    told = min((parts for parts in divided if parts is not None), key=len, default=())
    if 0 < len(told) <= _PARTS:
        return " | ".join(told)
    return f"{len(rows):,} of {len(report.rows):,}, such as {named(rows[0].options)}"


_PARTS = 3
"""Sets of rows that are told one by one."""


def _common(report: SweepReport, rows: Sequence[Combination]) -> str | None:
    """Rows that are all the combinations of some values, by the options of which not all values are among them."""
    taken = {axis.name: tuple(dict.fromkeys(row.options[axis.name] for row in rows)) for axis in report.axes}
    if math.prod(map(len, taken.values())) != len(rows):
        return None
    return "; ".join(
        f"{heading(axis.name)} {_span(taken[axis.name], axis.values)}"
        for axis in report.axes
        if len(taken[axis.name]) < len(axis.values)
    )


def _common_by(report: SweepReport, rows: Sequence[Combination], axis: Axis) -> tuple[str, ...] | None:
    """The same for rows that are such sets only for each value of one option; values with the same set together."""
    by_value: dict[str, list[Combination]] = {}
    for row in rows:
        by_value.setdefault(row.options[axis.name], []).append(row)
    alike: dict[frozenset[tuple[str, ...]], list[Combination]] = {}
    for group in by_value.values():
        others = frozenset(tuple(v for name, v in row.options.items() if name != axis.name) for row in group)
        alike.setdefault(others, []).extend(group)
    told = [_common(report, group) for group in alike.values()]
    return None if None in told else tuple(filter(None, told))


def _span(taken: Sequence[str], values: Sequence[str]) -> str:
    """Some of an axis's values: those in a row as `first to last`."""
    start = values.index(taken[0])
    if len(taken) > 2 and tuple(values[start : start + len(taken)]) == tuple(taken):
        return f"{taken[0] or NOTHING} to {taken[-1] or NOTHING}"
    return ", ".join(value or NOTHING for value in taken)


@dataclass(frozen=True, slots=True)
class Meter:
    """A figure of a row that can be drawn as a bar: `share` of the greatest, from 0 to 1, None without a figure."""

    row: Combination
    share: float | None
    text: str
    starts: bool
    """Whether vLLM starts, so that the figure is more than what it would be."""


def meters(report: SweepReport) -> tuple[str, tuple[Meter, ...]] | None:
    """A title, and the figure that compares the rows best: requests at once where they are as long in all rows, else
    tokens, else what one request needs. Rows that cannot be used are left out; None where no row has a figure."""
    usable = [row for row, _ in report.usable]
    lengths = {row.values["max_model_len"] for row in usable if row.values["max_concurrency"] is not None}
    if len(lengths) == 1:
        name, title = "max_concurrency", f"Requests of {_told('max_model_len', lengths.pop())} tokens at once"
    elif lengths:
        name, title = "tokens", "Tokens in the cache of one GPU"
    else:
        name, title = "needed_bytes", "Bytes that one request of the greatest length needs"
    figures = [figure for row in usable if isinstance(figure := row.values[name], int | float)]
    most = max(figures, default=0)
    return (title, tuple(_meter(row, found, name, most) for row, found in report.usable)) if most else None


def _meter(row: Combination, report: Report, name: str, most: float) -> Meter:
    figure, error = row.values[name], report.plan.stops_with
    share, told = None, "unknown" if error is None else ""
    if isinstance(figure, int | float):
        share, told = figure / most, f"{_told(name, figure)}{' B' if name in _BYTES else ''}"
    if error is not None:
        told = "; ".join(filter(None, (told, f"stops at {error.stage}")))
    return Meter(row, share, told, starts=error is None)


def _told(name: str, value: Value) -> str:
    if value is None or value == ():
        return "none" if name in ("findings", "backends", "layer_dtypes") else _NONE
    if isinstance(value, tuple):
        return ", ".join(number(each) if isinstance(each, int) else each for each in value)
    if name == "max_concurrency" and isinstance(value, float):
        return f"{value:.2f}x"
    return value if isinstance(value, str) else number(value, 2)


@dataclass(frozen=True, slots=True)
class Alteration:
    """What steps that change the same have in common: from where to where (`vLLM 0.25.1 -> 0.26.0`), in which other
    combinations (`tp 4, 8`; empty without any), and the changes by what explains them."""

    title: str
    among: str
    changes: Mapping[Explanation, Sequence[Change]]


def alterations(report: SweepReport, steps: Iterable[Comparison]) -> tuple[Alteration, ...]:
    """The steps that change something, those that change the same once."""
    found: dict[object, list[Comparison]] = {}
    for step in steps:
        if step.changes:
            ends = tuple(report.rows[at].options[step.option] for at in (step.before, step.after))
            found.setdefault((step.option, ends, step.changes), []).append(step)
    told = []
    for equal in found.values():
        step = equal[0]
        old, new = (report.rows[at].options[step.option] or NOTHING for at in (step.before, step.after))
        where = _beside([report.rows[each.before] for each in equal], step.option)
        told.append(Alteration(f"{heading(step.option)} {old} -> {new}", where, _explained(step)))
    return tuple(told)


def _beside(rows: Sequence[Combination], option: str) -> str:
    """The values of all options but one in some rows: `gpu h200; tp 4, 8`."""
    names = [name for name in rows[0].options if name != option]
    taken = {name: tuple(dict.fromkeys(row.options[name] or NOTHING for row in rows)) for name in names}
    if math.prod(map(len, taken.values())) == len(rows):
        return "; ".join(f"{heading(name)} {', '.join(values)}" for name, values in taken.items())
    told = [named({name: row.options[name] for name in names}) for row in rows]
    more = f" and {len(told) - _PARTS:,} more" if len(told) > _PARTS else ""
    return f"{' | '.join(told[:_PARTS])}{more}"


def nothing_to_compare(report: SweepReport) -> str:
    """Why there are no steps."""
    return "nothing to compare: no two successive rows differ in one option only" if report.axes else ONE


def quiet(steps: Iterable[Comparison]) -> int:
    """How many steps change nothing."""
    return sum(not step.changes and step.problem is None for step in steps)


def _explained(step: Comparison) -> dict[Explanation, list[Change]]:
    """The changes that are worth telling, by what explains them."""
    found: dict[Explanation, list[Change]] = {}
    stops = any(change.name == "outcome" for change in step.changes)
    for change in step.changes:
        if stops and (change.before in _UNKNOWN or change.after in _UNKNOWN) and change.name != "findings":
            # Known on one side only, because start-up stops before it: the outcome says all.
            continue
        found.setdefault(change.explanation, []).append(change)
    return found


def difference(change: Change) -> str:
    """`368,540 -> 291,658 (-20.9 %)`."""
    unit = " B" if change.name in _BYTES else ""
    told = f"{_told(change.name, change.before)} -> {_told(change.name, change.after)}{unit}"
    before, after = change.before, change.after
    if change.name in _PLAIN and isinstance(before, int | float) and isinstance(after, int | float) and before:
        percent = f"{100 * (after - before) / before:+.1f}"
        told += "" if percent in ("+0.0", "-0.0") else f" ({percent} %)"
    return told


@dataclass(frozen=True, slots=True)
class Clause:
    """One cause in words, its history entry, and where to read about it."""

    text: str
    entry: str | None = None
    source: str | None = None

    def __str__(self) -> str:
        """`because since 0.26.0 … (ENTRY, vllm#47728)`."""
        beside = ", ".join(filter(None, (self.entry, self.source)))
        return f"{self.text} ({beside})" if beside else self.text


def because(explanation: Explanation) -> list[Clause]:
    """The causes in words."""
    causes = explanation.causes
    match explanation.explained:
        case Explained.OPTION:
            return []
        case Explained.NOT:
            return [Clause("not explained by one entry of the history, nor by all of them")]
        case Explained.ALONE:
            return [_clause("because" if at == 0 else "or", cause) for at, cause in enumerate(causes)]
        case Explained.TOGETHER:
            return [_clause("because" if at == 0 else "and", cause) for at, cause in enumerate(causes)]
        case Explained.PARTLY:
            rest = Clause("the rest is not explained by history entries")
            return [*(_clause("in part because", cause) for cause in causes), rest]


def _clause(lead: str, cause: Cause) -> Clause:
    return Clause(f"{lead} {_when(cause)}{cause.summary}", cause.name, cause.reference or cause.where)


def _when(cause: Cause) -> str:
    """`since 0.26.0 `, `until 0.18.1 `, `from 0.20.2 to 0.24.0 `."""
    if cause.since is not None and cause.until is not None:
        return f"in {cause.since} " if cause.since == cause.until else f"from {cause.since} to {cause.until} "
    if cause.since is not None:
        return f"since {cause.since} "
    return f"until {cause.until} " if cause.until is not None else ""
