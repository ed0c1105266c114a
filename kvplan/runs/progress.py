"""How far a run is, for those who watch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum


class Part(StrEnum):
    """What is counted."""

    FILES = "files"
    COMBINATIONS = "combinations"
    STEPS = "steps"
    """From one row of a sweep to the next: explained."""


@dataclass(frozen=True, slots=True)
class Progress:
    """`done` of `total` are behind us."""

    part: Part
    done: int
    total: int
    launches: int | None = None
    """Launches found so far, in a scan."""


Observer = Callable[[Progress], None]
"""Is called whenever there is progress, which may be thousands of times a second."""


def nobody(_progress: Progress) -> None:
    """The observer where nobody watches."""
