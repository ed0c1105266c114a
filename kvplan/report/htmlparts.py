"""Parts of an HTML page: one file, no script, nothing from a network; whatever comes from outside is no markup."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from html import escape

from kvplan.report import documentation, outcomes
from kvplan.report.inert import markup
from kvplan.report.style import STYLE
from kvplan.report.words import printable
from kvplan.rules.values import Finding

_OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")
_SHORT = 20
"""Characters of a name that leave room beside it on a phone."""


def document(title: str, body: Iterable[str]) -> str:
    """A whole page, ending in a newline."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>kvplan: {text(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(body)
        + "\n</main>\n</body>\n</html>\n"
    )


def text(plain: str) -> str:
    """Text as HTML, on one line."""
    return markup(escape(printable(" ".join(plain.split()))))


def prose(plain: str) -> str:
    """Sentences as HTML, in which the names of options are not broken at their hyphens."""
    return _OPTION.sub(r'<span class="option">\g<0></span>', text(plain))


def badge(word: str) -> str:
    """A verdict or a severity."""
    return f'<span class="badge {word}">{word}</span>'


def link(name: str) -> str:
    """A reference such as `vllm#12345`, as a link where it has a page."""
    page = outcomes.address(name)
    return text(name) if page is None else f'<a href="{escape(page)}">{text(name)}</a>'


def pairs(rows: Iterable[tuple[str, str]]) -> str:
    """Names and what they are, which is HTML already; below each other on a phone where the names are long."""
    told = list(rows)
    items = "".join(f"<dt>{text(name)}</dt><dd>{value}</dd>" for name, value in told)
    return f"<dl{_long(name for name, _ in told)}>{items}</dl>"


def _long(names: Iterable[str]) -> str:
    """The class of a list with long names."""
    return ' class="long"' if any(len(name) > _SHORT for name in names) else ""


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of a chart: its name, its share of the longest one (None: no bar) and what it says, as plain text."""

    name: str
    share: float | None
    says: str
    kind: str = "cache"
    """How it is drawn: `cache`, or `other` for what is not to be had."""


def chart(bars: Iterable[Bar]) -> str:
    """Bars below each other."""
    told = list(bars)
    return f'<div class="chart"><dl{_long(bar.name for bar in told)}>{"".join(map(_bar, told))}</dl></div>'


def _bar(bar: Bar) -> str:
    share = bar.share
    drawn = "" if share is None else f'<i class="{bar.kind}" style="width:{max(60 * share, 0.5):.1f}%"></i>'
    return f"<dt>{text(bar.name)}</dt><dd>{drawn}<span>{text(bar.says)}</span></dd>"


def finding(found: Finding, name: str, rows: Iterable[tuple[str, str]]) -> str:
    """A finding of the rule called `name`, with more about it as `pairs` takes it; its code leads to what is written
    about the rule."""
    code = f'<a href="{documentation.of_rule(found.rule)}">{found.rule}</a>'
    head = f"<h3>{badge(str(found.severity))} {code} {text(name)}</h3>"
    return f'<section class="card">{head}<p>{prose(found.message)}</p>{pairs(rows)}</section>'


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], right: Collection[str] = ()) -> str:
    """A table that scrolls in its own frame where it is too wide; the cells are HTML already. Columns whose headings
    are in `right` are flush right."""
    marks = [' class="number"' if heading in right else "" for heading in headings]
    head = "".join(f"<th{mark}>{text(heading)}</th>" for mark, heading in zip(marks, headings, strict=True))
    body = "".join(
        f"<tr>{''.join(f'<td{mark}>{cell}</td>' for mark, cell in zip(marks, row, strict=True))}</tr>" for row in rows
    )
    heads = f"<thead><tr>{head}</tr></thead>" if any(headings) else ""
    named = text(", ".join(filter(None, headings)))
    # Reachable by keyboard, because it may scroll.
    frame = f'<div class="table" tabindex="0" role="region" aria-label="table of {named}">'
    return f"{frame}<table>{heads}<tbody>{body}</tbody></table></div>"
