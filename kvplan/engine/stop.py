"""How a stage says that start-up stops there."""

from __future__ import annotations

from kvplan.engine.failures import Failure
from kvplan.engine.values import Stage, StartupError


class StartupStops(Exception):  # noqa: N818  (it is an outcome, not a fault of kvplan)
    """vLLM's start-up would stop here. The planner turns it into the plan's outcome."""

    def __init__(self, error: StartupError) -> None:
        super().__init__(error.message)
        self.error = error


def stop(stage: Stage, facts: Failure, message: str, *, exception: str = "ValueError") -> StartupStops:
    """The exception to raise where vLLM raises `exception` with a text like `message`."""
    return StartupStops(StartupError(stage, exception, message, facts))


def config_refuses(stage: Stage, facts: Failure, message: str, *, raised: str = "ValueError") -> StartupStops:
    """The exception to raise where one of vLLM's config classes refuses while it is made.

    They are pydantic dataclasses: what their bounds, validators and `__post_init__` object to, and what is `raised`
    below them as a ValueError or AssertionError, reaches the caller as a ValidationError that quotes `message`; any
    other exception comes through as it is.
    """
    wrapped = raised in ("ValueError", "AssertionError")
    return stop(stage, facts, message, exception="ValidationError" if wrapped else raised)


def of_field(name: str, objection: str) -> str:
    """Pydantic's text where it refuses the value of one field: the name and under it the sentence."""
    return f"{name}\n  {objection}"
