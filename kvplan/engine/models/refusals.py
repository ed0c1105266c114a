"""The two ways in which no geometry comes out: vLLM refuses the model, or kvplan cannot place its layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kvplan.engine.models.geometry import Tower
    from kvplan.engine.models.numbers import KnownNumbers


class Refused(Exception):  # noqa: N818 - an outcome of vLLM, not an error of kvplan
    """vLLM's own start-up refuses the model at this release while it resolves or builds the model class."""

    def __init__(
        self,
        architecture: str,
        message: str,
        exception: str = "ValidationError",
        stage: str = "options",
        check: str | None = None,
        in_stages: tuple[str, str] | None = None,
        late: bool = False,
    ) -> None:
        super().__init__(message)
        self.architecture = architecture
        self.message = message
        self.exception = exception
        """Type of the exception that vLLM raises."""
        self.stage = stage
        """`options` where the engine config is made, `layers` where the model is built."""
        self.check = check
        """What an assertion without a text compares, or what a config hook reads."""
        self.in_stages = in_stages
        """Exception and message where the model is cut into pipeline stages, if they differ."""
        self.late = late
        """Whether the engine config reads what is missing once the configs of model, cache and ranks are made."""
        self.towers: tuple[Tower, ...] = ()
        """What was built before the layers that are refused."""
        self.numbers: KnownNumbers | None = None
        """None where not even the class is known."""


class Unplaceable(Exception):  # noqa: N818 - a limit of kvplan that the planner reports as a finding
    """The model has cache layers of a kind that kvplan does not compute: the planner must fail closed."""

    def __init__(self, architecture: str, why: str) -> None:
        super().__init__(f"{architecture}: {why}")
        self.architecture = architecture
        self.why = why
        self.numbers: KnownNumbers | None = None
        """None where not even the class is known."""
