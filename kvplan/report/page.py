"""A sheet of text that is written from top to bottom: paragraphs, pairs and tables that keep to its width.

Small on purpose: a library for this costs more time at start-up than the planning itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import groupby, zip_longest

from kvplan.report.canvas import Canvas
from kvplan.report.words import printable

GAP = 2
"""Columns between table columns, and the indent of everything under a heading."""

_NARROWEST_COLUMN = 8

Part = str | tuple[str, str]
"""A piece of a paragraph: text, or text with the name of its style."""

STYLES = {"bold": "1", "error": "1;31", "warning": "1;33", "note": "1;36", "ok": "1;32"}
"""SGR codes: of the basic colours only those that can be read on light and on dark."""


class Page:
    """A sheet of text. Blanks within texts are not kept: words are what wraps."""

    def __init__(self, canvas: Canvas) -> None:
        self.width = canvas.width
        self._colour = canvas.colour
        self._lines: list[str] = []

    def line(self, *parts: Part, indent: int = 0, hanging: int = 0) -> None:
        """One paragraph of parts, with blanks between them; lines after the first are indented by `hanging` more."""
        words = [(printable(word), style) for text, style in map(_styled, parts) for word in text.split()]
        for position, words_of_line in enumerate(_fill(words, self.width - indent, hanging)):
            blanks = indent + (hanging if position else 0)
            self._lines.append(" " * blanks + self._painted(words_of_line))

    def gap(self) -> None:
        """An empty line."""
        self._lines.append("")

    def heading(self, title: str, remark: str = "") -> None:
        """An empty line and a title, with a remark behind it."""
        self.gap()
        self.line((title, "bold"), f"({remark})" if remark else "")

    def unbroken(self, text: str, indent: int = 0) -> None:
        """A line to be copied: never wrapped, whatever the width."""
        self._lines.append(" " * indent + printable(text))

    def pairs(self, rows: Iterable[tuple[str, str]], indent: int = GAP) -> None:
        """Names and values in two columns; a long value wraps in its own."""
        self.table((), rows, indent=indent)

    def table(
        self,
        headings: Sequence[str],
        rows: Iterable[Sequence[str]],
        right: Collection[str] = (),
        indent: int = GAP,
    ) -> None:
        """Columns under headings (if any); those named in `right` are flush right, all but the first wrap."""
        cells = [[printable(cell) for cell in row] for row in (*([headings] if headings else []), *rows)]
        if not cells:
            return
        widths = _fitted([max(map(len, column)) for column in zip(*cells, strict=True)], self.width - indent)
        flush = [heading in right for heading in headings] or [False] * len(widths)
        for row in cells:
            folded = (_folded(cell, width) for cell, width in zip(row, widths, strict=True))
            for pieces in zip_longest(*folded, fillvalue=""):
                aligned = (
                    piece.rjust(width) if to_right else piece.ljust(width)
                    for piece, width, to_right in zip(pieces, widths, flush, strict=True)
                )
                self._lines.append((" " * indent + (" " * GAP).join(aligned)).rstrip())

    def text(self) -> str:
        """What was written."""
        return "".join(f"{line}\n" for line in self._lines)

    def _painted(self, words: Sequence[tuple[str, str]]) -> str:
        runs = ((style, " ".join(word for word, _ in run)) for style, run in groupby(words, key=lambda word: word[1]))
        if not self._colour:
            return " ".join(text for _, text in runs)
        return " ".join(f"\x1b[{STYLES[style]}m{text}\x1b[0m" if style else text for style, text in runs)


def _styled(part: Part) -> tuple[str, str]:
    return (part, "") if isinstance(part, str) else part


def _fill(words: Iterable[tuple[str, str]], width: int, hanging: int) -> Iterable[list[tuple[str, str]]]:
    """Words by line; one that is longer than a line is cut."""
    line: list[tuple[str, str]] = []
    room = width = max(width, hanging + 1)
    for whole, style in words:
        word = whole
        while len(word) + (1 if line else 0) > room:
            if line:
                yield line
            else:
                yield [(word[:room], style)]
                word = word[room:]
            line, room = [], width - hanging
        room -= len(word) + (1 if line else 0)
        line.append((word, style))
    if line:
        yield line


def _folded(cell: str, width: int) -> list[str]:
    """A cell in lines of at most `width`; blanks are kept where it fits."""
    if len(cell) <= width:
        return [cell]
    words = [(word, "") for word in cell.split()]
    return [" ".join(word for word, _ in line) for line in _fill(words, width, 0)]


def _fitted(widths: Sequence[int], room: int) -> list[int]:
    """Column widths taken down, the widest first and never the first column, until they fit into `room`."""
    fitted = list(widths)
    excess = sum(fitted) + GAP * (len(fitted) - 1) - room
    while excess > 0 and len(fitted) > 1:
        widest = max(range(1, len(fitted)), key=fitted.__getitem__)
        if fitted[widest] <= _NARROWEST_COLUMN:
            break
        fitted[widest] -= 1
        excess -= 1
    return fitted
