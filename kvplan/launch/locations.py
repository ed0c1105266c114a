"""Where a word of a launch stands, and how an option came to have its value."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class OriginKind(StrEnum):
    """How an option came to have its value."""

    DEFAULT = "default"
    FLAG = "flag"
    CONFIG_FILE = "config-file"
    ENVIRONMENT = "environment"


@dataclass(frozen=True, slots=True)
class Location:
    """A place in a file; `line` and `column` count from 1."""

    file: str
    line: int
    column: int
