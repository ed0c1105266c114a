"""Stage `graphs`: CUDA graphs of whole decode steps ask for a block of state for every request.

`resolve_cudagraph_mode_and_sizes` (config/compilation.py) runs once the cache is allocated: every sequence of a decode
graph has a state of its own, so a model with state layers needs at least `max_num_seqs` blocks.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.after.planned import Planned
from kvplan.engine.failures import StatesTooFew
from kvplan.engine.models.geometry import Role
from kvplan.engine.pool.graphs import captures_decode_steps
from kvplan.engine.stop import StartupStops, stop
from kvplan.engine.values import Stage
from kvplan.history import state


def check(planned: Planned) -> Iterator[StartupStops]:
    """At most one refusal. Where the number of blocks is estimated it is an upper bound, and so the refusal sure."""
    plan = planned.plan
    blocks = None if plan.capacity is None else plan.capacity.num_blocks
    if (
        blocks is None
        or plan.settings is None
        or plan.settings.max_num_seqs <= blocks
        or not plan.release.has(state.GRAPHS_NEED_A_BLOCK_A_REQUEST)
        or not captures_decode_steps(plan.launch)
        or not any(layer.role is Role.STATE for layer in plan.layers)
    ):
        return
    requests = plan.settings.max_num_seqs
    yield stop(
        Stage.GRAPHS,
        StatesTooFew(blocks=blocks, max_num_seqs=requests),
        f"max_num_seqs ({requests}) exceeds available Mamba cache blocks ({blocks}). Each decode sequence requires one "
        f"Mamba cache block, so CUDA graph capture cannot proceed. Please lower max_num_seqs to at most {blocks} or "
        "increase gpu_memory_utilization.",
    )
