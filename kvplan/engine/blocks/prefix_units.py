"""How many tokens two requests share at least: the unit of the prefix cache's keys.

`--prefix-match-unit` must divide the block of every group whose prefixes are shared; with a single group hits land on
whole blocks, and another unit is refused. Source: `resolve_kv_cache_block_sizes` (v1/core/kv_cache_utils.py), which
older releases call once the cache is allocated, beyond what a plan covers.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvplan.engine.config import EngineConfig
from kvplan.engine.failures import InvalidValue
from kvplan.engine.groups.grouping import CacheGroup
from kvplan.engine.options import connectors
from kvplan.engine.specs.base import AttentionSpec, MambaSpec
from kvplan.engine.stop import StartupStops, stop
from kvplan.engine.values import Stage
from kvplan.history import blocks as history
from kvplan.launch.values import Launch

OPTION = "--prefix-match-unit"


def check(launch: Launch, groups: Sequence[CacheGroup], config: EngineConfig) -> None:
    """Raises StartupStops where the blocks (tokens) of `groups` do not suit the unit that the launch asks for."""
    unit = launch.get("prefix_match_unit")
    hashes = config.prefix_caching or connectors.transfer(launch) is not None
    if unit is None or not hashes or not groups or not launch.release.has(history.PREFIX_UNIT_CHECKED_WITH_PLAN):
        return
    sizes = [_block_size(group, config.decode_context_parallel) for group in groups]
    if len(groups) == 1:
        if unit != sizes[0]:
            raise _refused(
                f"Invalid prefix_match_unit={unit}; with a single KV cache group, prefix-cache hits land on the block "
                f"size ({sizes[0]}). Unset it or set it to {sizes[0]}.",
                unit,
            )
        return
    if any(_keeps_whole_blocks(group, config) for group in groups):
        return
    shared = [
        size for group, size in zip(groups, sizes, strict=True) if all(spec.shares_prefixes for spec in group.specs)
    ] or sizes
    if any(size % unit for size in shared):
        raise _refused(
            f"Invalid prefix_match_unit={unit}; prefix-cacheable KV cache group block sizes must be divisible by "
            f"prefix_match_unit. Got group block sizes={sizes}, prefix-cacheable={shared}.",
            unit,
        )


def _block_size(group: CacheGroup, ranks: int) -> int:
    """Tokens of a group's block over all ranks that share them; states and some drafts are whole on each of them."""
    spec = group.representative
    whole = isinstance(spec, MambaSpec) or (isinstance(spec, AttentionSpec) and not spec.divided)
    return group.block_size * (1 if whole else ranks)


def _keeps_whole_blocks(group: CacheGroup, config: EngineConfig) -> bool:
    """Whether the group's states are no multiple of anything, so that keys are made for whole blocks only."""
    return isinstance(group.representative, MambaSpec) and config.state.cache_mode != "align"


def _refused(message: str, unit: int) -> StartupStops:
    return stop(Stage.CAPACITY, InvalidValue(option=OPTION, value=unit), message)
