"""The engine room: what vLLM release R does with a checkpoint and a launch.

One module a stage, in the order of vLLM's start-up: `config` (1), `cache_dtype` (2), `parallel` (3), `layers` (4),
`block_size` (5), `spec_building` (6), `grouping` (7), `capacity` (8), `views` (9); `planner` runs them.
"""

from kvplan.engine.planner import plan
from kvplan.engine.values import Plan

__all__ = ["Plan", "plan"]
