"""A launch with one change: other words, words left out, another release.

What a fix proposes is such a change. It is applied to the launch as the operator would apply it to the command line,
and the outcome is read by the same parser, so that a proposal can be planned before it is told.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kvplan.launch.build import reread
from kvplan.launch.options import Kind, option_of, table_of
from kvplan.launch.parser import EntryPoint, parse
from kvplan.launch.tokens import Token
from kvplan.launch.values import Launch
from kvplan.releases import Release, resolve
from kvplan.words import counted, listed


@dataclass(frozen=True, slots=True)
class Change:
    """One change to a launch. Options are vLLM's field names (`max_model_len`)."""

    values: tuple[tuple[str, Any], ...] = ()
    """Options and the values they get, as `Setting.value` holds them."""
    without: tuple[str, ...] = ()
    """Options that are left out: field names, or flags as written where no release knows them."""
    environment: tuple[tuple[str, str], ...] = ()
    """Environment variables and the values they get."""
    unset: tuple[str, ...] = ()
    """Environment variables that are left out."""
    release: str | None = None
    """A known release in place of the launch's own."""
    gpus: int | None = None
    """How many GPUs the launch has then, where it needs more than it has."""

    @property
    def names(self) -> tuple[str, ...]:
        """The options that it touches."""
        return (*(name for name, _ in self.values), *self.without)

    def beside(self, other: Change) -> Change:
        """Both changes at once; what `other` says about an option wins."""
        return Change(
            values=tuple((dict(self.values) | dict(other.values)).items()),
            without=tuple(dict.fromkeys((*self.without, *other.without))),
            environment=tuple((dict(self.environment) | dict(other.environment)).items()),
            unset=tuple(dict.fromkeys((*self.unset, *other.unset))),
            release=other.release or self.release,
            gpus=other.gpus or self.gpus,
        )


def changed(launch: Launch, change: Change) -> Launch:
    """`launch` after `change`. Raises InputError where the words cannot be read for another release."""
    if change.release is not None:
        launch = _as_of(launch, resolve(change.release))
    words = [Token(word) for word in words_of(change, launch.release)]
    added = parse(words, launch.release, EntryPoint.MODULE)
    dropped = {*change.names, *(_flag(name, launch.release) for name in change.names)}
    settings = {name: setting for name, setting in launch.settings.items() if name not in dropped}
    table = table_of(launch.release)
    settings |= {name: setting for name, setting in added.settings.items() if table.by_name[name].matters}
    kept = {name: value for name, value in launch.environment.items() if name not in change.unset}
    hardware = launch.hardware if change.gpus is None else replace(launch.hardware, count=change.gpus)
    return replace(
        launch,
        settings=settings,
        environment={**kept, **dict(change.environment)},
        hardware=hardware,
        refusals=(*(one for one in launch.refusals if one.option not in dropped), *added.refusals),
        remarks=tuple(one for one in launch.remarks if one.option not in dropped),
    )


def words_of(change: Change, release: Release) -> tuple[str, ...]:
    """The words that the change adds to a command line of `release`, in the order of `Change.values`."""
    return tuple(word for name, value in change.values for word in _words(name, value, release))


def told(change: Change, launch: Launch) -> str:
    """What to do about `launch`, as one would type it: `--max-model-len 8192`, `drop -dcp`, `use vLLM 0.26.0`."""
    release = launch.release if change.release is None else resolve(change.release)
    parts = [shlex.join(words_of(change, release))] if change.values else []
    parts += [f"{name}={shlex.quote(value)}" for name, value in change.environment]
    dropped = [*(_written(name, launch) for name in change.without), *change.unset]
    if dropped:
        parts.append(f"drop {listed(dropped)}")
    if change.gpus is not None:
        parts.append(counted(change.gpus, "GPU"))
    if change.release is not None:
        parts.append(f"use vLLM {change.release}")
    return " with ".join(parts)


def _written(name: str, launch: Launch) -> str:
    """The flag as somebody wrote it, else its long form."""
    setting = launch.settings.get(name)
    spelled = None if setting is None else setting.spelled
    return spelled if spelled is not None and spelled.startswith("-") else _flag(name, launch.release)


def _words(name: str, value: Any, release: Release) -> Sequence[str]:
    option = option_of(name, release)
    flag = _flag(name, release)
    if option is None:
        return (flag, *(map(str, value) if isinstance(value, list) else (str(value),)))
    if option.kind in (Kind.BOOL, Kind.TRUE):
        words = [word for word in (*option.flags, *option.hidden) if option.negates(word) is not value]
        return (next((word for word in words if word.startswith("--no-")), words[0]),)
    if isinstance(value, Mapping):
        return (flag, json.dumps(value))
    if isinstance(value, list):
        return (flag, *map(str, value))
    return (flag, str(value))


def _flag(name: str, release: Release) -> str:
    option = option_of(name, release)
    if option is None:
        return name if name.startswith("-") else f"--{name.replace('_', '-')}"
    return option.flag


def _as_of(launch: Launch, release: Release) -> Launch:
    """The same words read by the parser of another release; what kvplan itself put in their place stays."""
    before = reread(launch, launch.release)
    after = reread(launch, release)
    replaced = {name: setting for name, setting in launch.settings.items() if before.settings.get(name) != setting}
    return replace(
        launch,
        release=release,
        settings={**after.settings, **replaced},
        refusals=after.refusals,
        remarks=after.remarks,
        accepted=after.accepted,
    )
