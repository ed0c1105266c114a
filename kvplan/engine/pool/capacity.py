"""Stage 8: blocks, admission check, tokens, concurrency, longest request.

Source: `get_kv_cache_configs` and what it calls (v1/core/kv_cache_utils.py; 0.33.0 kv_cache_planning.py). Bytes are
those of one GPU; the worker with the fewest blocks sets the number for all.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from kvplan.engine.config import EngineConfig
from kvplan.engine.failures import InvalidValue, NoMemory, PoolTooSmall
from kvplan.engine.groups import compressed as compressed_groups
from kvplan.engine.groups.grouping import CacheGroup
from kvplan.engine.specs.base import LayerSpec, RequestLimits, ceil_div
from kvplan.engine.stop import stop
from kvplan.engine.values import Capacity, KindShare, LengthFit, MemoryEstimate, Stage, StartupError
from kvplan.history import capacity as history
from kvplan.history import parallel
from kvplan.releases import Release

GIB = 1 << 30

LENGTHS = (8_192, 32_768, 131_072)
"""Lengths of requests, in tokens, that are told besides max_model_len."""

DOUBLING = tuple(1 << exponent for exponent in range(10, 31))
"""Lengths of requests, in tokens, for a picture of how many fit at once: 1,024, 2,048 and so on."""

_FAR = 1 << 40
"""Tokens of a request so long that its windows are full."""

Workers = Sequence[tuple[CacheGroup, ...]]
"""The groups as each pipeline stage sees them."""


@dataclass(frozen=True, slots=True)
class Sized:
    """The capacity, and the refusal that start-up ends with if it does not suffice."""

    capacity: Capacity
    error: StartupError | None = None


def bytes_per_block(groups: tuple[CacheGroup, ...], release: Release) -> int:
    """Bytes that one block of the shared pool takes on a worker.

    One plain group: layers times page. One uniform group: the sum of its layers' pages. Several groups: the longest
    group times the common page; from 0.29 on the widest group's pages. 0.31.0 rounds up to whole rows.
    """
    if not release.has(history.POOL_IS_WIDEST_GROUP):
        if len(groups) == 1 and groups[0].uniform:
            return groups[0].page_bytes
        if all(group.uniform for group in groups):
            return compressed_groups.bytes_per_block([group.specs for group in groups], release)
        return max(len(group.layers) for group in groups) * groups[0].representative.page_bytes
    widest = max(sum(spec.page_bytes for spec in group.specs) for group in groups)
    alignment = math.lcm(*(spec.row_alignment for group in groups for spec in group.specs))
    return ceil_div(widest, alignment) * alignment


def request_blocks(groups: tuple[CacheGroup, ...], limits: RequestLimits, release: Release) -> int:
    """Blocks that the admission check counts for one request."""
    counted = groups[:1] if release.has(history.ADMISSION_COUNTS_FIRST_GROUP_ONLY) else groups
    return sum(_group_blocks(group, limits) for group in counted)


def _group_blocks(group: CacheGroup, limits: RequestLimits) -> int:
    members = group.specs if group.uniform else (group.representative,)
    return max(spec.request_blocks(limits) for spec in members)


def _distinct(group: CacheGroup) -> CacheGroup:
    """The group with each spec once: as many blocks for a request, in less time."""
    return replace(group, specs=tuple(dict.fromkeys(group.specs))) if group.uniform else group


def needed_bytes(groups: tuple[CacheGroup, ...], limits: RequestLimits, release: Release) -> int:
    """Bytes that the admission check says one request of `limits.max_model_len` tokens needs on a worker."""
    return _need(groups, release)(limits)


def _need(groups: tuple[CacheGroup, ...], release: Release) -> Callable[[RequestLimits], int]:
    """`needed_bytes` of `groups` for any limits, with what does not depend on them computed once."""
    if not release.has(history.POOL_IS_WIDEST_GROUP) and all(group.uniform for group in groups):
        if len(groups) == 1:
            pages = Counter[LayerSpec]()
            for spec in groups[0].specs:
                pages[spec] += spec.page_bytes
            return lambda limits: sum(spec.request_blocks(limits) * page for spec, page in pages.items())
        return lambda limits: compressed_groups.needed_bytes([group.specs for group in groups], limits)
    per_block, distinct = bytes_per_block(groups, release), tuple(_distinct(group) for group in groups)
    return lambda limits: per_block * request_blocks(distinct, limits, release)


def longest_fitting(groups: tuple[CacheGroup, ...], limits: RequestLimits, release: Release, available: int) -> int:
    """The largest max_model_len up to `limits.max_model_len` whose need fits `available` bytes; 0 if none does."""

    need = _need(groups, release)

    def fits(length: int) -> bool:
        return need(replace(limits, max_model_len=length)) <= available

    if fits(limits.max_model_len):
        return limits.max_model_len
    if not fits(1):
        return 0
    low, high = 1, limits.max_model_len
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low


def concurrency(groups: tuple[CacheGroup, ...], limits: RequestLimits, release: Release, num_blocks: int) -> float:
    """How many requests of the maximum length the log line says fit at once."""
    if release.has(history.CONCURRENCY_SUMS_GROUPS):
        blocks = sum(_group_blocks(group, limits) for group in groups)
    else:
        page = groups[0].page_bytes
        blocks = ceil_div(sum(_group_blocks(group, limits) * group.page_bytes for group in groups), page)
    return num_blocks / blocks


def size(
    workers: Workers,
    config: EngineConfig,
    available: int | None,
    *,
    whole: tuple[CacheGroup, ...],
) -> Sized:
    """Blocks and what they hold for `available` bytes a GPU. The refusal, if any, comes with all that could be
    computed; with `available` None only the need of one request is. `whole` are the groups of all pipeline stages."""
    release = config.release
    stages = [groups for groups in workers if groups]
    if not release.has(history.UNIFORM_GROUPS_OF_WORKERS) and any(group.uniform for group in whole):
        stages = [whole] * len(stages)
    limits = RequestLimits(
        config.max_model_len,
        config.in_flight_tokens,
        config.retained_tokens,
        encoder_tokens=config.max_num_batched_tokens,
        context_shards=config.context_shards,
    )
    if not stages:
        return Sized(_nothing_cached(config, available))
    per_block = [bytes_per_block(groups, release) for groups in stages]
    heaviest = max(range(len(stages)), key=lambda stage: needed_bytes(stages[stage], limits, release))
    override = config.num_gpu_blocks_override
    if available is None:
        refused = None if override is None else _no_blocks(override, stages[0])
        return Sized(_capacity(config, stages[heaviest], limits, per_block[heaviest], available=None), refused)
    pools = [available] * len(stages)
    if override is not None and release.has(history.BLOCKS_OVERRIDE_BEFORE_CHECKS):
        pools = [override * each for each in per_block]
    reserve = release.has(history.ADMISSION_RESERVES_NULL_BLOCK)
    usable = [pool - each if reserve else pool for pool, each in zip(pools, per_block, strict=True)]
    admitted = stages if release.has(history.ADMISSION_BY_WORKER) else [whole] * len(stages)
    longest = min(
        longest_fitting(groups, limits, release, max(room, 0)) for groups, room in zip(admitted, usable, strict=True)
    )
    error = None
    if config.auto_fit:
        if longest <= 0:
            error = _cannot_auto_fit()
        else:
            limits = replace(limits, max_model_len=min(longest, limits.max_model_len))
    error = error or _admission(admitted, usable, limits, release)
    num_blocks = max(0, min(pool // each for pool, each in zip(pools, per_block, strict=True)))
    if override is not None:
        num_blocks = max(0, override)
        error = error or _no_blocks(override, stages[0])
    capacity = _capacity(
        config,
        stages[heaviest],
        limits,
        per_block[heaviest],
        available=available,
        num_blocks=num_blocks,
        longest=longest,
    )
    return Sized(capacity, error)


def _no_blocks(override: int, groups: tuple[CacheGroup, ...]) -> StartupError | None:
    """A number of blocks that no tensor can have, where nothing checks it before the cache is made."""
    if override > 0:
        return None
    facts = InvalidValue(option="--num-gpu-blocks-override", value=override)
    if override == 0:
        return StartupError(Stage.CAPACITY, "AssertionError", "", facts)
    size = override * groups[0].page_bytes
    message = f"Trying to create tensor with negative dimension {size}: [{size}]"
    return StartupError(Stage.CAPACITY, "RuntimeError", message, facts)


def size_estimated(
    workers: Workers, config: EngineConfig, estimate: MemoryEstimate, *, whole: tuple[CacheGroup, ...]
) -> Sized:
    """Blocks and what they hold at most, with the refusal that is certain: what the estimate cannot hold, the measured
    memory cannot either. Where the weights' size is not known only that is said, and nothing about blocks."""
    most = size(workers, config, estimate.available_bytes, whole=whole)
    if estimate.weight_bytes is None:
        unknown = size(workers, config, None, whole=whole)
        return Sized(replace(unknown.capacity, estimate=estimate), most.error)
    # The log lines are left out: vLLM will print others.
    capacity = replace(most.capacity, estimate=estimate, log_lines=())
    if estimate.weight_bytes > estimate.gpu_bytes:
        return Sized(capacity, _out_of_memory())
    return Sized(capacity, most.error)


def _nothing_cached(config: EngineConfig, available: int | None) -> Capacity:
    return Capacity(
        available_bytes=available,
        bytes_per_block=0,
        num_blocks=1,
        tokens=None,
        max_concurrency=None,
        max_model_len=config.max_model_len,
        longest_request_tokens=config.max_model_len,
        needed_bytes=0,
    )


def _capacity(
    config: EngineConfig,
    groups: tuple[CacheGroup, ...],
    limits: RequestLimits,
    per_block: int,
    *,
    available: int | None,
    num_blocks: int | None = None,
    longest: int | None = None,
) -> Capacity:
    release = config.release
    needed = needed_bytes(groups, limits, release)
    times = tokens = None
    lines: tuple[str, ...] = ()
    if num_blocks is not None:
        times = concurrency(groups, limits, release, num_blocks)
        tokens = _tokens(groups, limits, release, num_blocks, times)
        lines = _log_lines(release, tokens, limits.max_model_len, times)
    fixed, slope = _line(groups, limits, release)
    return Capacity(
        available_bytes=available,
        bytes_per_block=per_block,
        num_blocks=num_blocks,
        tokens=tokens,
        max_concurrency=times,
        max_model_len=limits.max_model_len,
        longest_request_tokens=longest,
        needed_bytes=needed,
        fixed_bytes=fixed,
        bytes_per_token=slope,
        log_lines=lines,
        lengths=_lengths(groups, limits, release, num_blocks),
        curve=_curve(groups, limits, release, num_blocks),
        kinds=_kinds(groups, limits),
        unused_bytes=_unused(groups, limits, per_block),
    )


def _lengths(
    groups: tuple[CacheGroup, ...], limits: RequestLimits, release: Release, num_blocks: int | None
) -> tuple[LengthFit, ...]:
    """Requests of some lengths, as if each were the maximum: what they take and how many fit in `num_blocks`."""
    per_block = bytes_per_block(groups, release)
    told = []
    for length in _up_to(limits.max_model_len, LENGTHS):
        at = replace(limits, max_model_len=length)
        times = None if num_blocks is None else concurrency(groups, at, release, num_blocks)
        told.append(LengthFit(length, per_block * sum(_group_blocks(group, at) for group in groups), times))
    return tuple(told)


def _up_to(longest: int, lengths: Iterable[int]) -> tuple[int, ...]:
    return (*(length for length in lengths if length < longest), longest)


def _curve(
    groups: tuple[CacheGroup, ...], limits: RequestLimits, release: Release, num_blocks: int | None
) -> tuple[tuple[int, float], ...]:
    """Requests at once for lengths that double, each as if it were the maximum: (tokens, concurrency)."""
    if num_blocks is None:
        return ()
    distinct = tuple(_distinct(group) for group in groups)
    return tuple(
        (length, concurrency(distinct, replace(limits, max_model_len=length), release, num_blocks))
        for length in _up_to(limits.max_model_len, DOUBLING)
    )


def _kinds(groups: tuple[CacheGroup, ...], limits: RequestLimits) -> tuple[KindShare, ...]:
    """What the layers of each kind take of one request: the blocks of their group times their pages."""
    far, further = (replace(limits, max_model_len=length) for length in (_FAR, 2 * _FAR))
    kinds: dict[tuple[str, bool, int | None], list[tuple[int, int, int]]] = {}
    for group in groups:
        now, then, later = (_group_blocks(group, at) for at in (limits, far, further))
        for spec in group.specs:
            kind = (type(spec).__name__, bool(getattr(spec, "indexer", False)), spec.sliding_window)
            page = spec.page_bytes
            kinds.setdefault(kind, []).append((now * page, then * page, later * page))
    shares = []
    for (name, indexer, window), each in kinds.items():
        taken, then, later = (sum(column) for column in zip(*each, strict=True))
        slope = (later - then) / _FAR
        shares.append(
            KindShare(
                spec=name,
                indexer=indexer,
                sliding_window=window,
                layers=len(each),
                request_bytes=taken,
                fixed_bytes=max(0, round(then - slope * _FAR)),
                bytes_per_token=round(slope, 3),
            )
        )
    return tuple(shares)


def _unused(groups: tuple[CacheGroup, ...], limits: RequestLimits, per_block: int) -> int:
    """Bytes of a request's blocks beyond the pages of the layers in its groups."""
    return sum(
        _group_blocks(group, limits) * (per_block - sum(spec.page_bytes for spec in group.specs)) for group in groups
    )


def _tokens(
    groups: tuple[CacheGroup, ...], limits: RequestLimits, release: Release, num_blocks: int, times: float
) -> int:
    if release.has(history.TOKENS_FROM_CONCURRENCY):
        return int(times * limits.max_model_len)
    shards = limits.context_shards if release.has(parallel.DCP_MULTIPLIES_TOKENS) else 1
    return num_blocks // len(groups) * min(group.block_size for group in groups) * shards


def _line(groups: tuple[CacheGroup, ...], limits: RequestLimits, release: Release) -> tuple[int, float]:
    """(fixed bytes, bytes per token) of what a long request takes, whose windows are full and whose reserve for
    tokens in flight is complete: full-attention groups grow with the length, the others do not. All groups count,
    also in releases whose admission check looks at the first one only."""
    pool = bytes_per_block(groups, release)
    far = replace(limits, max_model_len=_FAR)
    further = replace(limits, max_model_len=2 * _FAR)
    then, later = (sum(_group_blocks(group, at) for group in groups) for at in (far, further))
    slope = pool * (later - then) / _FAR
    fixed = pool * then - slope * _FAR
    return max(0, round(fixed)), slope


def _admission(
    stages: list[tuple[CacheGroup, ...]], usable: list[int], limits: RequestLimits, release: Release
) -> StartupError | None:
    for groups, room in zip(stages, usable, strict=True):
        if room <= 0:
            return stop(
                Stage.CAPACITY,
                NoMemory(available_bytes=room),
                "No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing "
                "the engine.",
            ).error
        needed = needed_bytes(groups, limits, release)
        if needed > room:
            longest = longest_fitting(groups, limits, release, room)
            whose = "model's" if release.has(history.ADMISSION_SPELLS_MODELS) else "models's"
            estimate = (
                f"Based on the available memory, the estimated maximum model length is {longest}. " if longest else ""
            )
            return stop(
                Stage.CAPACITY,
                PoolTooSmall(
                    needed_bytes=needed,
                    available_bytes=room,
                    max_model_len=limits.max_model_len,
                    longest_request_tokens=longest,
                ),
                f"To serve at least one request with the {whose} max seq len ({limits.max_model_len}), "
                f"({_gib(needed)} GiB KV cache is needed, which is larger than the available KV cache memory "
                f"({_gib(room)} GiB). {estimate}Try increasing `gpu_memory_utilization` or decreasing "
                "`max_model_len` when initializing the engine.",
            ).error
    return None


def _out_of_memory() -> StartupError:
    message = "CUDA out of memory while the weights are loaded"
    return stop(Stage.CAPACITY, NoMemory(), message, exception="OutOfMemoryError").error


def _cannot_auto_fit() -> StartupError:
    return stop(
        Stage.CAPACITY,
        NoMemory(),
        "Cannot auto-fit max_model_len: not enough GPU memory available to serve even a single token. Try increasing "
        "`gpu_memory_utilization`.",
    ).error


def _gib(size_bytes: int) -> str:
    return f"{round(size_bytes / GIB, 2)}"


def _log_lines(release: Release, tokens: int, max_model_len: int, times: float) -> tuple[str, ...]:
    cache = f"GPU KV cache size: {tokens:,} tokens"
    requests = f"Maximum concurrency for {max_model_len:,} tokens per request: {times:.2f}x"
    if release.has(history.CAPACITY_LOGGED_IN_ONE_LINE):
        return (f"{cache}, {requests}",)
    return (cache, requests)
