"""A report as Markdown, for comments on pull requests and `$GITHUB_STEP_SUMMARY`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kvplan.engine.values import Capacity, Plan
from kvplan.report import documentation, headline, layertable, outcomes
from kvplan.report.canvas import Canvas
from kvplan.report.markup import escaped, fitting, in_html, link, tables
from kvplan.report.outcomes import Outcome, Told
from kvplan.report.places import relative
from kvplan.report.runs import fold
from kvplan.report.scanvalues import ScanReport
from kvplan.report.values import Detail, Report
from kvplan.report.words import layer_list, shortened, size
from kvplan.rules import get
from kvplan.words import counted, number

_QUOTED = 400
"""Characters of vLLM's own error; `plan` quotes all."""
_NUMBERS = frozenset({"KV heads", "block", "page B", "B/token", "tokens", "concurrency"})


def render(report: Report | ScanReport, _canvas: Canvas | None = None) -> str:
    """The report as Markdown, ending in a newline, short enough for a comment."""
    launches = outcomes.outcomes(report)
    blocks = _of_launch(launches[0]) if isinstance(report, Report) else _of_scan(report, launches)
    return fitting(blocks)


def _of_launch(launch: Outcome) -> Iterator[str]:
    report = launch.report
    yield f"### kvplan: {report.verdict}"
    yield "\n\n".join(_head(report))
    yield from _findings(outcomes.everything([launch]), placed=False)
    yield from _figures(report.plan)


def _of_scan(report: ScanReport, launches: Sequence[Outcome]) -> Iterator[str]:
    yield f"### kvplan: {report.verdict}"
    yield f"{escaped(outcomes.sum_of(report))}."
    if launches:
        headings = ("", "launch", "model", "vLLM", "runs on", "tokens", "concurrency")
        yield from tables(headings, [_launch_row(launch) for launch in launches], _NUMBERS)
    yield from _findings(outcomes.everything(launches), placed=True)
    lost = [(escaped(one.name), escaped(one.reason)) for one in outcomes.lost(report)]
    yield from tables(("not checked", "why"), lost)
    yield from tables(("not checked, and let be", "why"), [tuple(map(escaped, row)) for row in outcomes.let_be(report)])
    for launch in launches:
        inner = "\n\n".join([*_head(launch.report), *_figures(launch.report.plan)])
        yield f"<details><summary>{in_html(launch.label)}</summary>\n\n{inner}\n\n</details>"


def _launch_row(launch: Outcome) -> tuple[str, ...]:
    report, plan = launch.report, launch.report.plan
    capacity = plan.capacity
    tokens = "" if capacity is None or capacity.tokens is None else number(capacity.tokens)
    times = "" if capacity is None or capacity.max_concurrency is None else f"{capacity.max_concurrency:.2f}x"
    return (
        f"**{report.verdict}**",
        escaped(launch.label),
        escaped(plan.checkpoint.name),
        escaped(plan.release.name),
        escaped(headline.circumstances(plan)),
        tokens,
        times,
    )


def _head(report: Report) -> list[str]:
    """What comes of a launch, what vLLM says where it stops, and what it runs on."""
    plan = report.plan
    parts = [f"**{escaped(headline.outcome(report))}**"]
    error = plan.stops_with
    if error is not None:
        message = error.message if report.detail is Detail.PLAN else shortened(error.message, _QUOTED)
        parts.append(f"> {escaped(headline.stop(error, message))}")
    parts.append(escaped(headline.circumstances(plan)))
    return parts


def _findings(told: Sequence[Told], *, placed: bool) -> Iterator[str]:
    """The findings, worst first, and those that were let be."""
    headings = ("severity", "rule", *(("where",) if placed else ()), "finding", "fix")
    ordered = sorted(told, key=lambda one: one.finding.severity.rank)
    yield from tables(headings, [_finding_row(one, placed=placed) for one in ordered if one.suppressed is None])
    gone = [(one.finding.rule, escaped(outcomes.reason(one.suppressed))) for one in ordered if one.suppressed]
    yield from tables(("suppressed", "why"), gone)


def _finding_row(told: Told, *, placed: bool) -> tuple[str, ...]:
    finding = told.finding
    place = finding.location or told.outcome.location
    where = "" if place is None else f"{relative(place.file)}:{place.line}"
    message = escaped(finding.message)
    if finding.layers:
        message += f" (layers {escaped(layer_list(finding.layers))})"
    links = [link(name, page) for name in finding.references if (page := outcomes.address(name))]
    if links:
        message += f"<br>{', '.join(links)}"
    return (
        f"**{finding.severity}**",
        f"{link(finding.rule, documentation.of_rule(finding.rule))} {escaped(get(finding.rule).name)}",
        *((escaped(where),) if placed else ()),
        message,
        escaped(finding.fix or ""),
    )


def _figures(plan: Plan) -> Iterator[str]:
    """The runs of equal layers, and what fits."""
    runs = fold(plan.layers)
    if runs:
        columns = layertable.cells(runs)
        rows = [[escaped(cell) for cell in row] for row in zip(*columns.values(), strict=True)]
        yield f"**Layers** ({counted(len(plan.layers), 'cache')}, bytes of one layer on one GPU)"
        yield from tables(tuple(columns), rows, _NUMBERS)
    if plan.capacity is not None:
        yield "**Capacity** of one GPU"
        yield from tables(("", ""), [(name, escaped(value)) for name, value in capacity_rows(plan.capacity)])


def capacity_rows(capacity: Capacity) -> Iterator[tuple[str, str]]:
    """What fits on one GPU, as names and values."""
    length = number(capacity.max_model_len)
    if capacity.available_bytes is not None:
        remark = "" if capacity.estimate is None else ", an estimate: all figures are upper bounds"
        yield "memory for the cache", f"{size(capacity.available_bytes)}{remark}"
    if capacity.num_blocks is not None:
        yield "blocks", number(capacity.num_blocks)
    if capacity.tokens is not None:
        yield "tokens", number(capacity.tokens)
    if capacity.max_concurrency is not None:
        yield "concurrency", f"{capacity.max_concurrency:.2f}x at {length} tokens a request"
    if capacity.longest_request_tokens is not None:
        yield "longest request", f"{number(capacity.longest_request_tokens)} tokens"
    if capacity.needed_bytes is not None:
        yield f"{length} tokens need", size(capacity.needed_bytes)
