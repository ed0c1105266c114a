"""Stages 10 and on: what stops vLLM once the cache is planned, as far as configuration alone decides it.

vLLM's own start-up ends on a CPU where the cache is viewed, so these checks rest on its sources and on public reports.
The stages stand in the order in which they are reached: connectors are made and registered, metadata builders made,
the layers run, graphs captured, and last the engine core makes its scheduler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kvplan.engine.after import connectors, forward, graphs, groups, storage, sums
from kvplan.engine.after.planned import Planned
from kvplan.engine.stop import StartupStops
from kvplan.engine.values import StartupError

_CHECKS: tuple[Callable[[Planned], Iterator[StartupStops]], ...] = (
    connectors.check,
    sums.check,
    storage.check,
    forward.check,
    graphs.check,
    groups.check,
)


def errors(planned: Planned) -> tuple[StartupError, ...]:
    """Everything that stops a launch whose cache is planned; the first is where start-up ends."""
    return tuple(stopped.error for check in _CHECKS for stopped in check(planned))
