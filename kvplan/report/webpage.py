"""A report as one HTML file: no script, nothing from a network, light and dark, and readable without colour."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kvplan.engine.values import Capacity, Plan
from kvplan.report import headline, htmlparts, layertable, outcomes
from kvplan.report.canvas import Canvas
from kvplan.report.htmlparts import Bar, badge, chart, link, pairs, prose, table, text
from kvplan.report.markdown import capacity_rows
from kvplan.report.memory import MemoryPart, cache_parts, gpu_parts
from kvplan.report.outcomes import Outcome, Told
from kvplan.report.runs import Run, fold
from kvplan.report.scanvalues import ScanReport
from kvplan.report.values import Report
from kvplan.rules import get
from kvplan.words import counted, number

_NUMBERS = frozenset({"KV heads", "block", "page B", "B/token"})

_FAMILIES = {"bfloat16": "wide", "float16": "wide", "fp8": "eight", "uint8": "raw", "nvfp4": "four", "int4": "four"}
"""Colour and pattern of a dtype, by how its name begins."""


def render(report: Report | ScanReport, _canvas: Canvas | None = None) -> str:
    """The report as a whole page, ending in a newline."""
    launches = outcomes.outcomes(report)
    body = _of_launch(launches[0]) if isinstance(report, Report) else _of_scan(report, launches)
    title = headline.outcome(report) if isinstance(report, Report) else outcomes.sum_of(report)
    return htmlparts.document(title, body)


def _of_launch(launch: Outcome) -> Iterator[str]:
    yield f"<h1>{badge(str(launch.report.verdict))} {text(headline.outcome(launch.report))}</h1>"
    yield from _circumstances(launch.report)
    yield from _findings(outcomes.everything([launch]))
    yield from _figures(launch.report.plan)


def _of_scan(report: ScanReport, launches: Sequence[Outcome]) -> Iterator[str]:
    yield f"<h1>{badge(str(report.verdict))} {text(outcomes.sum_of(report))}</h1>"
    if lost := outcomes.lost(report):
        yield f"<h2>Not checked</h2>\n{pairs((one.name, prose(one.reason)) for one in lost)}"
    if gone := outcomes.let_be(report):
        yield f"<h2>Not checked, and let be</h2>\n{pairs((name, text(why)) for name, why in gone)}"
    if len(launches) > 1:
        yield f"<h2>Launches</h2>\n{_overview(launches)}"
    told = outcomes.everything(launches)
    for position, launch in enumerate(launches, 1):
        verdict = str(launch.report.verdict)
        mine = [one for one in told if one.outcome is launch]
        inner = "\n".join([*_circumstances(launch.report), *_findings(mine), *_figures(launch.report.plan)])
        shown = " open" if verdict in ("error", "warning") else ""
        head = f"{badge(verdict)} <b>{text(launch.label)}</b> {text(headline.outcome(launch.report))}"
        yield f'<details id="launch-{position}"{shown}><summary>{head}</summary>\n{inner}\n</details>'


def _overview(launches: Sequence[Outcome]) -> str:
    """A row a launch, which leads to it."""
    rows = [
        (
            badge(str(launch.report.verdict)),
            f'<a class="wrap" href="#launch-{position}">{text(launch.label)}</a>',
            text(launch.report.plan.checkpoint.name),
            text(launch.report.plan.release.name),
            text(headline.tally(launch.report) or "no findings"),
        )
        for position, launch in enumerate(launches, 1)
    ]
    return table(("", "launch", "model", "vLLM", "findings"), rows)


def _circumstances(report: Report) -> Iterator[str]:
    error = report.plan.stops_with
    if error is not None:
        yield f"<blockquote>{text(headline.stop(error, error.message))}</blockquote>"
    yield f"<p>{text(headline.circumstances(report.plan))}</p>"


def _findings(told: Sequence[Told]) -> Iterator[str]:
    counting = [one for one in told if one.suppressed is None]
    gone = [(one.finding.rule, outcomes.reason(one.suppressed)) for one in told if one.suppressed]
    if counting:
        yield "<h2>Findings</h2>"
    for one in counting:
        finding = one.finding
        rows = [(name, prose(value)) for name, value in outcomes.details(one) if name != "see"]
        links = [link(name) for name in finding.references]
        if links:
            rows.append(("see", ", ".join(links)))
        yield htmlparts.finding(finding, get(finding.rule).name, rows)
    if gone:
        yield f"<h2>Suppressed</h2>{pairs((rule, text(why)) for rule, why in gone)}"


def _figures(plan: Plan) -> Iterator[str]:
    runs = fold(plan.layers)
    if runs:
        columns = layertable.cells(runs)
        yield f"<h2>Layers</h2><p>{counted(len(plan.layers), 'cache')}; page bytes of one block on one GPU</p>"
        yield from _strip(plan)
        rows = [[text(cell) for cell in row] for row in zip(*columns.values(), strict=True)]
        yield table(tuple(columns), rows, _NUMBERS)
    capacity = plan.capacity
    if capacity is not None:
        yield "<h2>Memory of one GPU</h2>"
        yield from _bar(gpu_parts(plan))
        yield from _bar(cache_parts(capacity))
        yield pairs((name, text(value)) for name, value in capacity_rows(capacity))
        yield from _requests(plan, capacity)


def _strip(plan: Plan) -> Iterator[str]:
    """A bar a cache, as high as its page is large, in the order in which vLLM makes them, and a legend."""
    highest = max(layer.page_bytes for layer in plan.layers) or 1
    bars, dtypes = [], dict[str, int]()
    for layer in plan.layers:
        dtype = Run(layer, (layer.index,), 1).dtype
        dtypes[dtype] = dtypes.get(dtype, 0) + 1
        said = f"{layer.name}: {dtype}, {number(layer.page_bytes)} B"
        height = max(100 * layer.page_bytes / highest, 1)
        bars.append(f'<i class="{_family(dtype)}" style="height:{height:.1f}%" title="{text(said)}"></i>')
    legend = "".join(
        f'<li><i class="{_family(dtype)}"></i>{text(dtype)} ({counted(count, "cache")})</li>'
        for dtype, count in dtypes.items()
    )
    label = ", ".join(f"{counted(count, 'cache')} of {dtype}" for dtype, count in dtypes.items())
    yield f'<div class="strip" role="img" aria-label="{text(label)}">{"".join(bars)}</div>'
    scale = f"full height: {number(highest)} B"
    yield f'<p class="axis"><span>first layer</span><span>{scale}</span><span>last layer</span></p>'
    yield f'<ul class="legend">{legend}</ul>'


def _family(dtype: str) -> str:
    return next((family for start, family in _FAMILIES.items() if dtype.startswith(start)), "other")


def _requests(plan: Plan, capacity: Capacity) -> Iterator[str]:
    """How many requests fit at once, by their length: a bar each, its number in words."""
    most = max((times for _, times in capacity.curve), default=0)
    if most <= 0:
        return
    bars = [Bar(f"{number(length)} tokens", times / most, f"{times:,.2f}x") for length, times in capacity.curve]
    yield f"<h2>Requests at once, by length</h2>{chart(bars)}"
    if plan.settings is not None:
        yield f"<p>{prose(f'--max-num-seqs lets at most {number(plan.settings.max_num_seqs)} run at once.')}</p>"


def _bar(parts: Sequence[MemoryPart]) -> Iterator[str]:
    """Parts of a whole side by side, and what they are in words."""
    whole = sum(part.count for part in parts)
    if not whole:
        return
    pieces = "".join(
        f'<i class="{part.kind}" style="width:{100 * part.count / whole:.2f}%" title="{text(part.text)}"></i>'
        for part in parts
    )
    words = "".join(f'<li><i class="{part.kind}"></i>{text(part.text)}</li>' for part in parts)
    label = text("; ".join(part.text for part in parts))
    yield f'<div class="bar" role="img" aria-label="{label}">{pieces}</div><ul class="legend">{words}</ul>'
