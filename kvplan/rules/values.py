"""What the rules room hands on: findings."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from kvplan.launch.changing import Change
from kvplan.launch.locations import Location


class Severity(StrEnum):
    """How bad it is: `error` start-up fails or output is wrong, `warning` the operator does not get what was
    asked for, `note` worth knowing."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"

    @property
    def rank(self) -> int:
        """0 for the worst."""
        return ("error", "warning", "note").index(self.value)


@dataclass(frozen=True, slots=True)
class Proposal:
    """A change that was planned: the finding is gone with it, and no new error is there."""

    words: str
    """What to do, as an operator would type it."""
    effect: str
    """What it costs or keeps; empty where nothing that kvplan computes changes."""

    @property
    def text(self) -> str:
        """`--max-num-batched-tokens 8192 (keeps 262,144 tokens: 33.30 GiB instead of 70.80 GiB)`."""
        return f"{self.words} ({self.effect})" if self.effect else self.words


@dataclass(frozen=True, slots=True)
class Attempt:
    """A change that was planned, whatever came of it."""

    words: str
    """What was tried, as an operator would type it."""
    outcome: str
    """The rules that speak against it, or that it works and what it costs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong, and how to mend it."""

    rule: str
    severity: Severity
    message: str
    layers: tuple[int, ...] = ()
    options: tuple[str, ...] = ()
    location: Location | None = None
    fix: str | None = None
    """What mends it: the first proposals, or the rule's own advice."""
    changes: tuple[Change, ...] = field(default=(), compare=False)
    """What its rule would try, to be planned before it is proposed."""
    fixes: tuple[Proposal, ...] = ()
    """Changes that were planned and mend it, the one that changes least first."""
    attempts: tuple[Attempt, ...] = field(default=(), compare=False)
    """All that was tried to mend it, in order."""
    references: tuple[str, ...] = ()
