"""Whether vLLM captures whole decode steps as CUDA graphs, which asks for a cache block for every request.

`resolve_cudagraph_mode_and_sizes` (config/compilation.py) runs once the cache is allocated: every sequence of a decode
graph has a state of its own, so a model with state layers needs at least `max_num_seqs` blocks.
"""

from __future__ import annotations

from collections.abc import Mapping

from kvplan.engine.models.geometry import Role
from kvplan.engine.values import Plan
from kvplan.history import state
from kvplan.launch.values import Launch

_WITHOUT_FULL_GRAPHS = frozenset({"NONE", "PIECEWISE"})
"""Values of `cudagraph_mode` that capture no whole step."""
_LEVELS_WITHOUT_FULL_GRAPHS = frozenset({"0", "1"})
"""Optimisation levels with such a mode as their default."""


def blocks_too_few(plan: Plan) -> bool:
    """Whether a plan that succeeds leaves fewer blocks than a decode step may have sequences."""
    if not plan.ok or plan.settings is None or plan.capacity is None or plan.capacity.num_blocks is None:
        return False
    return (
        plan.release.has(state.GRAPHS_NEED_A_BLOCK_A_REQUEST)
        and captures_decode_steps(plan.launch)
        and any(layer.role is Role.STATE for layer in plan.layers)
        and plan.settings.max_num_seqs > plan.capacity.num_blocks
    )


def captures_decode_steps(launch: Launch) -> bool:
    """Whether full CUDA graphs are on, as they are unless the launch says otherwise."""
    if launch.get("enforce_eager"):
        return False
    compilation = launch.get("compilation_config")
    mode = compilation.get("cudagraph_mode") if isinstance(compilation, Mapping) else None
    if mode is not None:
        return str(mode).rpartition(".")[2].upper() not in _WITHOUT_FULL_GRAPHS
    return str(launch.get("optimization_level")) not in _LEVELS_WITHOUT_FULL_GRAPHS
