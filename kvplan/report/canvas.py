"""Where a text ends up, and the console that draws it there."""

from __future__ import annotations

import io
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import Console

PIPED_WIDTH = 100
"""Columns of a text that does not go to a terminal: stable, whatever the terminal at hand."""

NARROWEST = 40
"""Columns below which a page is not squeezed."""

STYLES = {
    "error": "bold color(196)",
    "warning": "bold color(130)",
    "note": "bold color(31)",
    "ok": "bold color(28)",
}
"""Colours of the 256 that have at least 3.9:1 contrast on black and on white; fewer colours get the nearest."""


@dataclass(frozen=True, slots=True)
class Canvas:
    """A sheet of `width` columns, with colour or without, unless there is a `stream` that decides.

    A stream that is a terminal has its own width, and colours unless NO_COLOR is set; any other stream gets plain
    text, with colours where FORCE_COLOR is set (see no-color.org and force-color.org).
    """

    width: int = PIPED_WIDTH
    colour: bool = False
    stream: TextIO | None = None

    def console(self) -> Console:
        """A console that draws as for this canvas, into memory. rich is imported here, for texts only."""
        from rich.console import Console
        from rich.theme import Theme

        if self.stream is None:
            where: dict[str, Any] = {
                "file": io.StringIO(),
                "width": self.width,
                "force_terminal": self.colour,
                "color_system": "256" if self.colour else None,
            }
        else:
            where = {
                "file": self.stream,
                "width": None if self.stream.isatty() else self.width,
                "color_system": None if os.environ.get("NO_COLOR") else "auto",
            }
        console = Console(**where, no_color=False, theme=Theme(STYLES), highlight=False, markup=False, emoji=False)
        console.width = max(console.width, NARROWEST)
        console.file = io.StringIO()
        return console
