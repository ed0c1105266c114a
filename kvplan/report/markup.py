"""Markdown as GitHub and GitLab read it, with everything that comes from outside made harmless."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from kvplan.report.words import printable
from kvplan.words import counted

LONGEST = 60_000
"""Characters; GitHub takes 65,536 in a comment."""

_ROWS = 50
"""Rows of one table; more are divided over several, of which as many are kept as fit."""

_SPECIAL = re.compile(r"[\\`*_{}\[\]~|$]")
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"})
_CALLS = re.compile(r"[@#!%](?=\w)|://|\bwww(?=\.)|\bGH-(?=\d)")
"""What would notify people, refer to issues, or become a link: a space of no width behind it keeps it text."""


def escaped(text: str) -> str:
    """Text that shows as it is, on one line: no markup, no HTML, no mention and no link.

    It may stand anywhere but at the beginning of a line, where more signs have a meaning.
    """
    marked = _SPECIAL.sub(lambda sign: f"\\{sign[0]}", _flat(text).translate(_ENTITIES))
    return marked.replace("\0", "&#8203;")


def in_html(text: str) -> str:
    """The same between the tags of an HTML block, where Markdown's own escapes would show."""
    return _flat(text).translate(_ENTITIES).replace("\0", "&#8203;")


def _flat(text: str) -> str:
    """One line without control characters, and a NUL where a call is to be kept from working."""
    return _CALLS.sub(lambda call: f"{call[0]}\0", printable(" ".join(text.split())))


def link(name: str, page: str) -> str:
    """A link to a page of ours to choose."""
    return f"[{escaped(name)}]({page})"


def fitting(blocks: Iterable[str]) -> str:
    """The blocks one below the other, as many as `LONGEST` has room for, ending in a newline."""
    text, left_out = "", 0
    for block in blocks:
        if left_out or len(text) + len(block) > LONGEST:
            left_out += 1
        else:
            text += f"{block}\n\n"
    if left_out:
        text += f"_{counted(left_out, 'more part')} left out for length; `--format text` tells all._\n"
    return text.rstrip("\n") + "\n"


def tables(headings: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[str] = ()) -> Iterator[str]:
    """A table, or several of a length that `fitting` can choose among; none without rows. The cells are Markdown
    already."""
    rules = ["---:" if heading in right else "---" for heading in headings]
    for start in range(0, len(rows), _ROWS):
        yield "\n".join(map(_row, (headings, rules, *rows[start : start + _ROWS])))


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
