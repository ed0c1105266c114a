"""What a planned fix is."""

from __future__ import annotations

from dataclasses import dataclass

from kvplan.engine.values import Plan
from kvplan.launch.changing import Change


@dataclass(frozen=True, slots=True)
class Fix:
    """A change with which a finding is gone and no new error is there."""

    words: str
    """What to do, as an operator would type it."""
    effect: str
    """What it costs or keeps, in one phrase; empty where nothing that kvplan computes changes."""
    change: Change
    plan: Plan
    """The changed launch, planned."""
    warnings: tuple[str, ...] = ()
    """Rules that warn then and did not before."""
