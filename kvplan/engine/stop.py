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
