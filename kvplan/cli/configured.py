"""The settings file of a command: which one, and its values as the defaults of the command's options."""

from __future__ import annotations

from collections.abc import Collection
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from kvplan.cli.output import say

if TYPE_CHECKING:
    from kvplan.runs.settings.values import Settings

_GIVEN = "kvplan.settings.options"
_SETTINGS = "kvplan.settings"
_OF_FILE, _OF_NONE = "kvplan_config", "isolated"

_OWN_THRESHOLD = ("plan", "sweep")
"""Commands whose exit code tells something else than findings, unless they are given --fail-on."""


def collect(ctx: click.Context, parameter: click.Parameter, value: Any) -> Any:
    """The callback of `--kvplan-config` and `--isolated`, which are eager: with the second of them, the settings
    are read and become the defaults of all other options."""
    given: dict[str, Any] = ctx.meta.setdefault(_GIVEN, {})
    given[str(parameter.name)] = value
    if len(given) == 2 and not ctx.resilient_parsing:
        _read(ctx, given[_OF_FILE], isolated=given[_OF_NONE])
    return value


def _read(ctx: click.Context, file: str | None, *, isolated: bool) -> None:
    from kvplan.runs.settings.finding import find
    from kvplan.runs.settings.values import Settings

    if file is not None and isolated:
        raise click.UsageError("--kvplan-config and --isolated exclude each other", ctx)
    path = Path(file) if file is not None else None if isolated else find(Path())
    settings = Settings() if path is None else _settings(path)
    ctx.meta[_SETTINGS] = settings
    defaults: dict[str, Any] = dict(settings.options)
    if ctx.info_name in _OWN_THRESHOLD:
        defaults.pop("fail_on", None)
    ctx.default_map = defaults


def _settings(path: Path) -> Settings:
    from kvplan.runs.settings.reading import read

    return read(path)


def settings_of(ctx: click.Context) -> Settings:
    """The settings that hold for the command of `ctx`; empty ones where it takes none."""
    from kvplan.runs.settings.values import Settings

    found: Settings = ctx.meta.get(_SETTINGS) or Settings()
    return found


def _acting(ctx: click.Context) -> list[str]:
    """What of the settings, besides options, chooses among findings, files and models."""
    settings, given = settings_of(ctx), ctx.params
    acting: list[str] = []
    if settings.severities and "select" in given:
        acting.append("severity")
    alive = any(not entry.expired(date.today()) for entry in settings.suppressions)
    if alive and "no_ignore" in given and not given["no_ignore"]:
        acting.append("suppress")
    for name in ("include", "exclude"):
        if name in given and not given[name] and getattr(settings, name) is not None:
            acting.append(f"scan.{name}")
    if "select" in given and (settings.additions.models or settings.additions.directories):
        acting.append("catalog")
    return acting


def acting(ctx: click.Context) -> str | None:
    """What of the settings file chooses among findings, in words; None where nothing does."""
    options = [
        name
        for name in ("ignore", "select", "fail_on")
        if name in settings_of(ctx).options
        and ctx.get_parameter_source(name) is ParameterSource.DEFAULT_MAP
        and not (name == "ignore" and ctx.params.get("no_ignore"))
    ]
    told = [*(name.replace("_", "-") for name in options), *_acting(ctx)]
    return f"{settings_of(ctx).file} gives {', '.join(told)}" if told else None


def announce(ctx: click.Context, overridden: Collection[str] = ()) -> None:
    """Say on standard error which settings file changes what the command does, and in what. Other options of the
    command line stand in for the options in `overridden`, given with underscores."""
    settings = settings_of(ctx)
    used = [
        name.replace("_", "-")
        for name in settings.options
        if name not in overridden and ctx.get_parameter_source(name) is ParameterSource.DEFAULT_MAP
    ]
    used += _acting(ctx)
    today = date.today()
    for entry in settings.suppressions:
        if entry.expired(today):
            say([f"{entry.where} ({entry.rule}) expired on {entry.expires} and has no effect"])
    if used:
        say([f"{settings.file} gives {', '.join(used)} (--isolated leaves it out)"])
