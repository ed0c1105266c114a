"""Where a text ends up: how wide it is, and whether it takes colour."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TextIO

PIPED_WIDTH = 100
"""Columns of a text that does not go to a terminal: stable, whatever the terminal at hand."""

_NARROWEST = 40


@dataclass(frozen=True, slots=True)
class Canvas:
    """Width in columns, and whether colour codes are wanted."""

    width: int = PIPED_WIDTH
    colour: bool = False


def canvas_for(stream: TextIO, environment: Mapping[str, str] | None = None) -> Canvas:
    """The canvas that `stream` is: colour and width of a terminal if it is one.

    NO_COLOR (any value but the empty one) turns colour off, FORCE_COLOR turns it on without a terminal; NO_COLOR
    wins. See no-color.org and force-color.org.
    """
    variables = os.environ if environment is None else environment
    terminal = stream.isatty()
    colour = terminal and variables.get("TERM") != "dumb"
    if variables.get("FORCE_COLOR"):
        colour = True
    if variables.get("NO_COLOR"):
        colour = False
    width = shutil.get_terminal_size((PIPED_WIDTH, 24)).columns if terminal else PIPED_WIDTH
    return Canvas(max(width, _NARROWEST), colour)
