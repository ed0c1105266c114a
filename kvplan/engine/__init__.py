"""The engine room: what vLLM release R does with a checkpoint and a launch.

One module a stage, in the order of vLLM's start-up: `config` (1), `cache_dtype` (2), `parallel` (3), `layers` (4),
`block_size` (5), `spec_building` (6), `grouping` (7), `capacity` (8), `views` (9); `planner` runs them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kvplan.engine.planner import plan
    from kvplan.engine.values import Plan

__all__ = ["Plan", "plan"]


def __getattr__(name: str) -> Any:
    """Import the planner when it is asked for: who only needs the engine's values does not wait for its stages."""
    if name == "plan":
        from kvplan.engine.planner import plan

        return plan
    if name == "Plan":
        from kvplan.engine.values import Plan

        return Plan
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
