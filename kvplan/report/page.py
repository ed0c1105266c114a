"""A sheet of text that is written from top to bottom: paragraphs, pairs and tables that keep to its width."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from kvplan.report.canvas import Canvas
from kvplan.report.words import printable

GAP = 2
"""Columns between table columns, and the indent of everything under a heading."""

Piece = str | tuple[str, str]
"""A piece of a paragraph: text, or text with the name of its style (`bold`, or one of `canvas.STYLES`)."""


class Page:
    """A sheet of text. Blanks at the ends of lines are not kept, so that texts can be compared."""

    def __init__(self, canvas: Canvas) -> None:
        self._console = canvas.console()
        self._drawn: list[Text | Padding] = []

    @property
    def width(self) -> int:
        """Columns of the sheet."""
        return self._console.width

    def line(self, *parts: Piece, indent: int = 0, hanging: int = 0) -> None:
        """One paragraph of parts, with blanks between them; lines after the first are indented by `hanging` more."""
        words = Text(" ").join(text for text in map(_styled, parts) if text)
        lines = words.wrap(self._console, self.width - indent - hanging) if words else ()
        for position, line in enumerate(lines):
            self._drawn.append(Text(" " * (indent + (hanging if position else 0))).append_text(line))

    def gap(self) -> None:
        """An empty line."""
        self._drawn.append(Text())

    def heading(self, title: str, remark: str = "") -> None:
        """An empty line and a title, with a remark behind it."""
        self.gap()
        self.line((title, "bold"), f"({remark})" if remark else "")

    def unbroken(self, text: str, indent: int = 0) -> None:
        """A line to be copied: never wrapped, whatever the width."""
        self._drawn.append(Text(" " * indent + printable(text)))

    def fits(self, columns: Mapping[str, Sequence[str]], indent: int = GAP) -> bool:
        """Whether columns of cells under headings, whose words may stand below each other, have room as they are."""
        words = [max(map(len, heading.split()), default=0) for heading in columns]
        widest = [max(map(len, cells), default=0) for cells in columns.values()]
        return sum(map(max, widest, words)) + GAP * (len(columns) - 1) <= self.width - indent

    def fitting(
        self, columns: Mapping[str, Sequence[str]], dispensable: Sequence[str], indent: int = GAP
    ) -> dict[str, Sequence[str]]:
        """The columns without those of `dispensable`, first to last, that there is no room for."""
        kept = dict(columns)
        for heading in dispensable:
            if self.fits(kept, indent):
                break
            kept.pop(heading, None)
        return kept

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
        cells = [[Text(printable(cell)) for cell in row] for row in rows]
        columns = headings or [""] * (len(cells[0]) if cells else 0)
        if not columns:
            return
        table = Table(box=None, show_header=bool(headings), header_style="", pad_edge=False, padding=(0, GAP, 0, 0))
        for position, heading in enumerate(columns):
            table.add_column(
                Text(heading),
                justify="right" if heading in right else "left",
                no_wrap=position == 0,
                overflow="fold",
            )
        for row in cells:
            table.add_row(*row)
        self._drawn.append(Padding(table, (0, 0, 0, indent)))

    def text(self) -> str:
        """What was written."""
        with self._console.capture() as capture:
            for drawn in self._drawn:
                self._console.print(drawn, soft_wrap=isinstance(drawn, Text))
        return "".join(f"{line.rstrip()}\n" for line in capture.get().splitlines())


def _styled(part: Piece) -> Text:
    """A part with its blanks and control characters made harmless."""
    text, style = (part, "") if isinstance(part, str) else part
    return Text(" ".join(printable(word) for word in text.split()), style)
