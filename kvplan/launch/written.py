"""The words of a launch, kept so that another release can read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kvplan.launch.passages import Passage
from kvplan.launch.tokens import Token


@dataclass(frozen=True, slots=True)
class Written:
    """The words of a launch and what they are read with."""

    arguments: tuple[Token, ...]
    """Without the program in front."""
    entry: str
    """The way in that they were written for: a value of `kvplan.launch.parser.EntryPoint`."""
    base: Path | None = None
    """The directory in which a relative `--config` file lies."""
    files: Mapping[str, Passage] | None = None
    """Contents of such files that are at hand already."""
    closed: bool = False
    """Whether no other file may be read: the words come from a file that nobody vouches for."""
