"""What a launch says about an option, or what the release takes where it says nothing."""

from __future__ import annotations

from typing import Any

from kvplan.engine.stop import stop
from kvplan.engine.values import Stage
from kvplan.launch.options import default_of
from kvplan.launch.values import Launch


def value(launch: Launch, name: str) -> Any:
    """The option `name` as given, or its default in the release."""
    given = launch.get(name)
    return default_of(name, launch.release) if given is None else given


def positive(launch: Launch, name: str) -> int:
    """A size option, 1 where nothing is said. Raises StartupStops below 1."""
    told = value(launch, name)
    size = 1 if told is None else int(told)
    if size < 1:
        flag = "--" + name.replace("_", "-")
        raise stop(
            Stage.OPTIONS,
            "invalid_value",
            f"{flag} must be at least 1, got {size}",
            facts={"option": flag, "value": size},
        )
    return size
