"""Markdown as GitHub and GitLab read it, with everything that comes from outside made harmless."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from kvplan.report.words import printable

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


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], right: Collection[str] = ()) -> list[str]:
    """The lines of a table; its cells are Markdown already."""
    rules = ["---:" if heading in right else "---" for heading in headings]
    return [_row(headings), _row(rules), *map(_row, rows)]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
