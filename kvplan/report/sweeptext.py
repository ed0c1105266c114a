"""A sweep for a person at a terminal: a table of the combinations, then what changes from row to row, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from kvplan.report.canvas import Canvas
from kvplan.report.page import GAP, Page
from kvplan.report.sweepvalues import Cause, Change, Explained, Explanation, Row, Step, SweepReport, Value
from kvplan.report.words import counted, number, size

_RIGHT = frozenset({"page B", "block", "tokens", "concurrency", "longest"})
_RESULTS = ("verdict", "stops at", "cache dtype", "page B", "block", "tokens", "concurrency", "longest")
_DISPENSABLE = ("block", "page B", "cache dtype", "longest")
"""What a narrow terminal goes without, first to last."""

_NONE = "-"

_LABELS = {
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
_PLAIN = frozenset({"tokens", "max_concurrency", "longest_request_tokens", "num_blocks", "needed_bytes"})
"""Values of which the relative change tells something."""

_UNKNOWN: tuple[Value, ...] = (None, ())
_BYTES = frozenset({"page_bytes", "bytes_per_block", "needed_bytes"})


def render(report: SweepReport, canvas: Canvas) -> str:
    """The sweep as text for `canvas`, ending in a newline."""
    page = Page(canvas)
    usable = [row for row in report.rows if row.report is not None]
    names = dict.fromkeys(row.report.plan.checkpoint.name for row in usable if row.report is not None)
    page.line((f"{report.verdict}:", str(report.verdict)), (f"{', '.join(names)}:", "bold"), _sum(report))
    page.line(_circumstances(report, usable), indent=GAP)
    _tables(page, report)
    problems = Counter(row.problem for row in report.rows if row.problem is not None)
    if problems:
        page.gap()
    for problem, count in problems.items():
        page.line(("unusable", "warning"), f"({counted(count, 'combination')}): {problem}", indent=GAP, hanging=GAP)
    if report.steps is not None:
        _steps(page, report, report.steps)
    return page.text()


def _tables(page: Page, report: SweepReport) -> None:
    """One table of all rows; where it is too wide, one for each combination of the options that vary slowest, and
    then without what a narrow terminal can go without."""
    columns = [(row, _columns(row)) for row in report.rows]
    empty = {heading for heading in _RESULTS if not any(cells[heading] for _, cells in columns)}
    axes = [axis.name for axis in report.axes]
    lifted: list[str] = []
    dropped = set(empty)
    while _width(columns, axes, dropped) > page.width - GAP:
        if len(axes) > 1:
            lifted.append(axes.pop(0))
        elif missing := [heading for heading in _DISPENSABLE if heading not in dropped]:
            dropped.add(missing[0])
        else:
            break
    groups: dict[str, list[list[str]]] = {}
    headings = [*axes, *(heading for heading in _RESULTS if heading not in dropped)]
    for row, cells in columns:
        title = _named({name: row.options[name] for name in lifted})
        groups.setdefault(title, []).append([cells[heading] for heading in headings])
    for title, rows in groups.items():
        page.gap()
        if title:
            page.line((title, "bold"), indent=GAP)
        page.table([_heading(name).replace("-", " ") for name in headings], rows, right=_RIGHT)


def _width(columns: Sequence[tuple[Row, dict[str, str]]], axes: Sequence[str], dropped: Collection[str]) -> int:
    """Columns of the terminal that the table takes."""
    chosen = [*axes, *(heading for heading in _RESULTS if heading not in dropped)]
    widest = [max(len(cells[heading]) for _, cells in columns) for heading in chosen]
    words = [max(map(len, _heading(heading).replace("-", " ").split())) for heading in chosen]
    return sum(map(max, widest, words)) + GAP * (len(chosen) - 1)


def _named(options: Mapping[str, str]) -> str:
    """`gpu h200; kv-cache-dtype fp8`."""
    return "; ".join(f"{_heading(name)} {value or '(nothing)'}" for name, value in options.items())


def _circumstances(report: SweepReport, usable: Sequence[Row]) -> str:
    """What all rows have in common: release, GPU and memory where they do not vary."""
    varied = {axis.name for axis in report.axes}
    told = []
    for row in usable[:1]:
        launch = row.report.plan.launch if row.report is not None else None
        if launch is None:
            continue
        if "--vllm-version" not in varied:
            told.append(f"vLLM {launch.release}")
        if "--gpu" not in varied:
            told.append(f"{launch.hardware.name}{', assumed' if launch.hardware.assumed else ''}")
        if "--available-kv-memory" not in varied:
            memory = launch.available_kv_memory
            told.append("memory for the cache unknown" if memory is None else f"{size(memory)} for the cache of a GPU")
    return "; ".join(told)


def _sum(report: SweepReport) -> str:
    said = counted(len(report.rows), "combination")
    failing = sum(row.report is not None and row.report.plan.error is not None for row in report.rows)
    unusable = sum(row.report is None for row in report.rows)
    if failing:
        said += f", {failing:,} of which vLLM does not start"
    if unusable:
        said += f", {unusable:,} of which cannot be used"
    return said


def _heading(axis: str) -> str:
    return "vLLM" if axis == "--vllm-version" else axis.lstrip("-")


def _columns(row: Row) -> dict[str, str]:
    """The cells of a row by option and heading."""
    told = {name: value or "(nothing)" for name, value in row.options.items()}
    if row.report is None:
        return {**told, **dict.fromkeys(_RESULTS, ""), "verdict": "unusable"}
    values, error = row.values, row.report.plan.error
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


def _told(name: str, value: Value) -> str:
    if value is None or value == ():
        return "none" if name in ("findings", "backends", "layer_dtypes") else _NONE
    if isinstance(value, tuple):
        return ", ".join(number(each) if isinstance(each, int) else each for each in value)
    if name == "max_concurrency" and isinstance(value, float):
        return f"{value:.2f}x"
    return value if isinstance(value, str) else number(value)


def _steps(page: Page, report: SweepReport, steps: Sequence[Step]) -> None:
    """Every step with changes; the others in one line."""
    page.heading("What changes")
    if not steps:
        page.line("nothing to compare: no two successive rows differ in one option only", indent=GAP)
    quiet = 0
    for step in steps:
        if step.changes:
            _step(page, report, step)
        elif step.problem is None:
            quiet += 1
    if quiet:
        page.gap()
        page.line(f"nothing changes in {counted(quiet, 'other step')}", indent=GAP)


def _title(report: SweepReport, step: Step) -> str:
    before, after = report.rows[step.before].options, report.rows[step.after].options
    shared = _named({name: value for name, value in before.items() if name != step.option})
    old, new = (side[step.option] or "(nothing)" for side in (before, after))
    beside = f" ({shared})" if shared else ""
    return f"{_heading(step.option)} {old} -> {new}{beside}"


def _step(page: Page, report: SweepReport, step: Step) -> None:
    page.gap()
    page.line((_title(report, step), "bold"), indent=GAP, hanging=GAP)
    reasons: dict[Explanation, list[Change]] = {}
    stops = any(change.name == "outcome" for change in step.changes)
    for change in step.changes:
        if stops and (change.before in _UNKNOWN or change.after in _UNKNOWN) and change.name != "findings":
            # Known on one side only, because start-up stops before it: the outcome says all.
            continue
        reasons.setdefault(change.explanation, []).append(change)
    for explanation, changes in reasons.items():
        rows = [(_LABELS[change.name], _difference(change)) for change in changes]
        page.pairs(rows, indent=2 * GAP)
        for text in _because(explanation):
            page.line(text, indent=3 * GAP, hanging=GAP)


def _difference(change: Change) -> str:
    unit = " B" if change.name in _BYTES else ""
    told = f"{_told(change.name, change.before)} -> {_told(change.name, change.after)}{unit}"
    before, after = change.before, change.after
    if change.name in _PLAIN and isinstance(before, int | float) and isinstance(after, int | float) and before:
        percent = f"{100 * (after - before) / before:+.1f}"
        told += "" if percent.endswith("0.0") else f" ({percent} %)"
    return told


def _because(explanation: Explanation) -> list[str]:
    """The causes in words, one a line."""
    causes = [_cause(cause) for cause in explanation.causes]
    match explanation.explained:
        case Explained.OPTION:
            return []
        case Explained.NOT:
            return ["not explained by one entry of the history, nor by all of them"]
        case Explained.ALONE:
            return [f"{'because' if position == 0 else 'or'} {cause}" for position, cause in enumerate(causes)]
        case Explained.TOGETHER:
            return [f"{'because' if position == 0 else 'and'} {cause}" for position, cause in enumerate(causes)]
        case Explained.PARTLY:
            return [*(f"in part because {cause}" for cause in causes), "the rest is not explained by history entries"]


def _cause(cause: Cause) -> str:
    told = f"{_when(cause)}{cause.summary} ({cause.name}"
    source = cause.reference or cause.where
    return f"{told}, {source})" if source else f"{told})"


def _when(cause: Cause) -> str:
    """`since 0.26.0 `, `until 0.18.1 `, `from 0.20.2 to 0.24.0 `."""
    if cause.since is not None and cause.until is not None:
        return f"in {cause.since} " if cause.since == cause.until else f"from {cause.since} to {cause.until} "
    if cause.since is not None:
        return f"since {cause.since} "
    return f"until {cause.until} " if cause.until is not None else ""
