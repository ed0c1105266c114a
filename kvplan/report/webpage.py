"""A report as one HTML file: no script, nothing from a network, light and dark, and readable without colour."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from kvplan.engine.values import Capacity, Plan
from kvplan.report import headline, layertable, outcomes
from kvplan.report.canvas import Canvas
from kvplan.report.markdown import capacity_rows
from kvplan.report.memory import Part, cache_parts, gpu_parts, requests_at
from kvplan.report.outcomes import Outcome, Told
from kvplan.report.places import relative
from kvplan.report.runs import Run, fold
from kvplan.report.scanvalues import ScanReport
from kvplan.report.style import STYLE
from kvplan.report.values import Report
from kvplan.report.words import counted, number, printable
from kvplan.rules import get

_NUMBERS = frozenset({"KV heads", "block", "page B", "B/token", "tokens", "concurrency"})

_FAMILIES = {"bfloat16": "wide", "float16": "wide", "fp8": "eight", "uint8": "raw", "nvfp4": "four", "int4": "four"}
"""Colour and pattern of a dtype, by how its name begins."""


def render(report: Report | ScanReport, _canvas: Canvas | None = None) -> str:
    """The report as a whole page, ending in a newline."""
    launches = outcomes.outcomes(report)
    body = _of_launch(launches[0]) if isinstance(report, Report) else _of_scan(report, launches)
    title = headline.outcome(report) if isinstance(report, Report) else outcomes.sum_of(report)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>kvplan: {_text(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(body)
        + "\n</main>\n</body>\n</html>\n"
    )


def _text(text: str) -> str:
    return escape(printable(" ".join(text.split())))


def _of_launch(launch: Outcome) -> Iterator[str]:
    yield f"<h1>{_badge(str(launch.report.verdict))} {_text(headline.outcome(launch.report))}</h1>"
    yield from _circumstances(launch.report)
    yield from _findings(outcomes.everything([launch]))
    yield from _figures(launch.report.plan)


def _of_scan(report: ScanReport, launches: Sequence[Outcome]) -> Iterator[str]:
    yield f"<h1>{_badge(str(report.verdict))} {_text(outcomes.sum_of(report))}</h1>"
    if lost := outcomes.unreadable(report):
        places = [relative(one.file) + ("" if one.location is None else f":{one.location.line}") for one in lost]
        items = [
            f"<dt>{_text(where)}</dt><dd>{_text(one.reason)}</dd>" for where, one in zip(places, lost, strict=True)
        ]
        yield f"<h2>Not checked</h2>\n<dl>{''.join(items)}</dl>"
    told = outcomes.everything(launches)
    for launch in launches:
        verdict = str(launch.report.verdict)
        mine = [one for one in told if one.outcome is launch]
        inner = "\n".join([*_circumstances(launch.report), *_findings(mine), *_figures(launch.report.plan)])
        shown = " open" if verdict in ("error", "warning") else ""
        head = f"{_badge(verdict)} <b>{_text(launch.label)}</b> {_text(headline.outcome(launch.report))}"
        yield f"<details{shown}><summary>{head}</summary>\n{inner}\n</details>"


def _badge(word: str) -> str:
    return f'<span class="badge {word}">{word}</span>'


def _circumstances(report: Report) -> Iterator[str]:
    error = report.plan.error
    if error is not None:
        yield f"<blockquote>{_text(headline.stop(error, error.message))}</blockquote>"
    yield f"<p>{_text(headline.circumstances(report.plan))}</p>"


def _findings(told: Sequence[Told]) -> Iterator[str]:
    counting = [one for one in told if one.suppressed is None]
    gone = [(one.finding.rule, outcomes.reason(one.suppressed)) for one in told if one.suppressed]
    if counting:
        yield "<h2>Findings</h2>"
    for one in counting:
        finding = one.finding
        yield f'<section class="finding {finding.severity}">'
        yield f"<h3>{_badge(str(finding.severity))} {finding.rule} {_text(get(finding.rule).name)}</h3>"
        yield f"<p>{_text(finding.message)}</p>"
        rows = [(name, _text(value)) for name, value in outcomes.details(one) if name != "see"]
        links = [_link(name) for name in finding.references]
        if links:
            rows.append(("see", ", ".join(links)))
        yield "<dl>" + "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in rows) + "</dl></section>"
    if gone:
        items = "".join(f"<dt>{rule}</dt><dd>{_text(why)}</dd>" for rule, why in gone)
        yield f"<h2>Suppressed</h2><dl>{items}</dl>"


def _link(name: str) -> str:
    page = outcomes.address(name)
    return _text(name) if page is None else f'<a href="{escape(page)}">{_text(name)}</a>'


def _figures(plan: Plan) -> Iterator[str]:
    runs = fold(plan.layers)
    if runs:
        columns = layertable.cells(runs)
        yield f"<h2>Layers</h2><p>{counted(len(plan.layers), 'cache')}; page bytes of one block on one GPU</p>"
        yield from _strip(plan)
        rows = [[_text(cell) for cell in row] for row in zip(*columns.values(), strict=True)]
        yield _table(tuple(columns), rows)
    capacity = plan.capacity
    if capacity is not None:
        yield "<h2>Memory of one GPU</h2>"
        yield from _bar(gpu_parts(plan))
        yield from _bar(cache_parts(capacity))
        named = "".join(f"<dt>{name}</dt><dd>{_text(value)}</dd>" for name, value in capacity_rows(capacity))
        yield f"<dl>{named}</dl>"
        yield from _requests(capacity)


def _strip(plan: Plan) -> Iterator[str]:
    """A bar a cache, as high as its page is large, in the order in which vLLM makes them, and a legend."""
    highest = max(layer.page_bytes for layer in plan.layers) or 1
    bars, dtypes = [], dict[str, int]()
    for layer in plan.layers:
        dtype = Run(layer, (layer.index,), 1).dtype
        dtypes[dtype] = dtypes.get(dtype, 0) + 1
        said = f"{layer.name}: {dtype}, {number(layer.page_bytes)} B"
        height = max(100 * layer.page_bytes / highest, 1)
        bars.append(f'<i class="{_family(dtype)}" style="height:{height:.1f}%" title="{_text(said)}"></i>')
    legend = "".join(
        f'<li><i class="{_family(dtype)}"></i>{_text(dtype)} ({counted(count, "cache")})</li>'
        for dtype, count in dtypes.items()
    )
    label = ", ".join(f"{counted(count, 'cache')} of {dtype}" for dtype, count in dtypes.items())
    yield f'<div class="strip" role="img" aria-label="{_text(label)}">{"".join(bars)}</div>'
    scale = f"full height: {number(highest)} B"
    yield f'<p class="axis"><span>first layer</span><span>{scale}</span><span>last layer</span></p>'
    yield f'<ul class="legend">{legend}</ul>'


def _family(dtype: str) -> str:
    return next((family for start, family in _FAMILIES.items() if dtype.startswith(start)), "other")


def _requests(capacity: Capacity) -> Iterator[str]:
    """How many requests fit at once, by their length: a bar each, its number in words."""
    told = requests_at(capacity)
    if not told:
        return
    most = max(times for _, times in told)
    bars = "".join(
        f'<dt>{number(length)} tokens</dt><dd><i class="cache" style="width:{max(80 * times / most, 0.5):.1f}%"></i>'
        f"<span>{times:,.2f}x</span></dd>"
        for length, times in told
    )
    yield f'<h2>Requests at once, by length</h2><dl class="chart">{bars}</dl>'


def _bar(parts: Sequence[Part]) -> Iterator[str]:
    """Parts of a whole side by side, and what they are in words."""
    whole = sum(part.count for part in parts)
    if not whole:
        return
    pieces = "".join(
        f'<i class="{part.kind}" style="width:{100 * part.count / whole:.2f}%" title="{_text(part.text)}"></i>'
        for part in parts
    )
    words = "".join(f'<li><i class="{part.kind}"></i>{_text(part.text)}</li>' for part in parts)
    label = _text("; ".join(part.text for part in parts))
    yield f'<div class="bar" role="img" aria-label="{label}">{pieces}</div><ul class="legend">{words}</ul>'


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table that scrolls in its own frame where it is too wide; the cells are HTML already."""
    marks = [' class="number"' if heading in _NUMBERS else "" for heading in headings]
    head = "".join(f"<th{mark}>{heading}</th>" for mark, heading in zip(marks, headings, strict=True))
    body = "".join(
        f"<tr>{''.join(f'<td{mark}>{cell}</td>' for mark, cell in zip(marks, row, strict=True))}</tr>" for row in rows
    )
    heads = f"<thead><tr>{head}</tr></thead>" if any(headings) else ""
    return f'<div class="table"><table>{heads}<tbody>{body}</tbody></table></div>'
