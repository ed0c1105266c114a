"""What the rules room hands on: findings."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from kvplan.launch.values import Location


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
    references: tuple[str, ...] = ()
