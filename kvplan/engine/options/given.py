"""What a launch says about an option, or what the release takes where it says nothing."""

from __future__ import annotations

from typing import Any

from kvplan.engine.failures import InvalidValue
from kvplan.engine.stop import stop
from kvplan.engine.values import Stage
from kvplan.errors import InputError
from kvplan.launch.options import default_of
from kvplan.launch.values import Launch

MOST_RANKS = 16_384
"""No cluster serves one model with more; each is planned on its own."""


def value(launch: Launch, name: str) -> Any:
    """The option `name` as given, or its default in the release."""
    given = launch.get(name)
    return default_of(name, launch.release) if given is None else given


def flag(launch: Launch, name: str) -> bool:
    """Whether the switch `name` is on."""
    return bool(value(launch, name))


def variable(launch: Launch, name: str, default: str = "0") -> bool:
    """Whether the environment variable `name` is on; `default` is what vLLM takes where it is not set."""
    return launch.environment.get(name, default) not in ("", "0")


def number(launch: Launch, name: str) -> int:
    """A number, 1 where nothing is said; whether it makes sense is for others to say."""
    told = value(launch, name)
    return 1 if told is None else int(told)


def positive(launch: Launch, name: str) -> int:
    """A size option, 1 where nothing is said. Raises StartupStops below 1."""
    size = number(launch, name)
    if size < 1:
        option = "--" + name.replace("_", "-")
        raise stop(Stage.OPTIONS, InvalidValue(option=option, value=size), f"{option} must be at least 1, got {size}")
    if size > MOST_RANKS:
        raise InputError(f"--{name.replace('_', '-')} {size}: more than {MOST_RANKS:,} ranks are not planned")
    return size


def default(launch: Launch, name: str) -> Any:
    """What the release takes where nobody says anything."""
    return default_of(name, launch.release)
