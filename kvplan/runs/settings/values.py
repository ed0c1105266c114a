"""What a settings file says, as the command line's options and the runs take it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kvplan.checkpoint.additions import Additions
from kvplan.launch.globs import Globs
from kvplan.rules.suppression import SettingsEntry
from kvplan.rules.values import Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a settings file says; None and empty where it says nothing."""

    file: str | None = None
    """The file as messages call it; None where there is none."""
    options: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict)
    """Values of options, as the command line would give them, by the option's name with underscores."""
    severities: Mapping[str, Severity] = field(default_factory=dict)
    """By rule code."""
    additions: Additions = field(default_factory=Additions)
    include: Globs | None = None
    """The only files of directories that are scanned."""
    exclude: Globs | None = None
    """Files that are never scanned."""
    suppressions: tuple[SettingsEntry, ...] = ()
