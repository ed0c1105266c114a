"""Stage `connectors`: every worker makes the KV connector's class, which then looks at the groups and the kernels.

`KVConnectorFactory.create_connector` (distributed/kv_transfer/kv_connector/factory.py) and
`_sync_block_size_with_kernel` of the NIXL and Mooncake workers. A worker in the engine's own process sees the smallest
block of all groups, which the engine core has just written into the config (v1/engine/core.py); workers in processes of
their own keep the block size that they started with. Read from the sources; the second also in vllm#50714.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kvplan.engine.after.planned import Planned
from kvplan.engine.backends.blocks import kernel_block_sizes
from kvplan.engine.failures import ConnectorNeedsKernelBlock, ConnectorWithoutHybrid
from kvplan.engine.groups.grouping import CacheGroup
from kvplan.engine.options import connectors
from kvplan.engine.stop import StartupStops, stop
from kvplan.engine.values import Plan, Settings, Stage
from kvplan.engine.views import all_take
from kvplan.history import blocks
from kvplan.history import connectors as history

_SPLIT_FOR_KERNELS = (*connectors.NIXL, "MooncakeConnector")
"""Connectors that transfer blocks of the kernels' size."""


def check(planned: Planned) -> Iterator[StartupStops]:
    """At most two refusals, in the order in which a worker meets them."""
    plan, settings = planned.plan, planned.plan.settings
    if settings is None:
        return
    yield from _without_hybrid(plan, settings)
    if not plan.release.has(history.TRANSFERS_KERNEL_BLOCKS) or not planned.groups:
        return
    name = next((name for name in _SPLIT_FOR_KERNELS if connectors.uses(plan.launch, name)), None)
    if name is None:
        return
    size = _block_of_worker(planned.groups, settings, plan)
    by_spec = plan.release.has(blocks.GROUP_KERNEL_SIZES_BY_SPEC)
    kernels = list(
        dict.fromkeys(
            (layer.backend, kernel_block_sizes(layer.backend, plan.release, layer.query, of_layer=by_spec))
            for layer in planned.layers
        )
    )
    fixed = {each for _, sizes in kernels for each in sizes if isinstance(each, int) and size % each == 0}
    if not any(all_take(kernels, candidate) for candidate in (size, *fixed)):
        yield stop(
            Stage.CONNECTORS,
            ConnectorNeedsKernelBlock(
                connector=name, block_size=size, backends=tuple(dict.fromkeys(name for name, _ in kernels))
            ),
            f"No common block size for {size}",
        )


def _without_hybrid(plan: Plan, settings: Settings) -> Iterator[StartupStops]:
    asked = connectors.transfer(plan.launch)
    if asked is None or asked.module or settings.hybrid_manager_disabled:
        return
    if not connectors.may_be_made_with_hybrid(asked, plan.release):
        yield stop(
            Stage.CONNECTORS,
            ConnectorWithoutHybrid(connector=str(asked.name)),
            f"Connector {asked.name} does not support HMA but HMA is enabled. Please set "
            "`--disable-hybrid-kv-cache-manager`.",
        )


def _block_of_worker(groups: Sequence[CacheGroup], settings: Settings, plan: Plan) -> int:
    """Tokens of the block that a worker reads from its config."""
    if settings.tensor_parallel * settings.pipeline_parallel > 1 or plan.launch.get("distributed_executor_backend"):
        return settings.block_size
    sizes = [group.block_size for group in groups]
    if plan.release.has(history.SMALLEST_BLOCK_OF_SHARED_PREFIXES):
        sizes = [each.block_size for each in groups if all(spec.shares_prefixes for spec in each.specs)] or sizes
    return min(sizes)
