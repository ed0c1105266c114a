"""Stage `scheduler`: the engine core's block tables and context parallelism (v1/core/kv_cache_utils.py)."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.after.planned import Planned
from kvplan.engine.failures import SeveralGroups
from kvplan.engine.parallelism.context import needs_one_group
from kvplan.engine.stop import StartupStops, stop
from kvplan.engine.values import Stage


def check(planned: Planned) -> Iterator[StartupStops]:
    """At most one refusal."""
    plan = planned.plan
    if plan.settings is None or len(plan.groups) < 2 or not needs_one_group(plan.release):
        return
    if plan.settings.decode_context_parallel * plan.settings.prefill_context_parallel > 1:
        yield stop(
            Stage.SCHEDULER,
            SeveralGroups(groups=len(plan.groups)),
            "Hybrid KV cache groups with multiple block sizes do not support context parallelism "
            "(dcp_world_size/pcp_world_size > 1).",
        )
