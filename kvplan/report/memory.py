"""Memory as parts of a whole, for pictures of it."""

from __future__ import annotations

from dataclasses import dataclass

from kvplan.engine.values import Capacity, Plan
from kvplan.report.words import size
from kvplan.words import number


@dataclass(frozen=True, slots=True)
class MemoryPart:
    """A part of some memory: `count` in bytes, and what it is."""

    count: int
    text: str
    kind: str
    """How it is drawn: `cache`, `need`, `used` or `free`."""


def gpu_parts(plan: Plan) -> tuple[MemoryPart, ...]:
    """The memory of one GPU: the cache, the rest of what vLLM may use, and what it may not.

    Empty where the GPU's memory or the cache's is not known, or where the cache is said to be larger than both allow.
    """
    memory, capacity, settings = plan.launch.hardware.memory_bytes, plan.capacity, plan.settings
    if memory is None or settings is None or capacity is None or capacity.available_bytes is None:
        return ()
    share = settings.gpu_memory_utilization
    rest = int(memory * share) - capacity.available_bytes
    if rest < 0 or capacity.available_bytes < 0:
        return ()
    left = memory - int(memory * share)
    return (
        MemoryPart(
            capacity.available_bytes,
            f"KV cache{', at most' if capacity.estimated else ''}: {size(capacity.available_bytes)}",
            "cache",
        ),
        MemoryPart(
            rest, f"{'weights' if capacity.estimated else 'weights, activations and graphs'}: {size(rest)}", "used"
        ),
        MemoryPart(left, f"beyond --gpu-memory-utilization {share:g}: {size(left)}", "free"),
    )


def cache_parts(capacity: Capacity) -> tuple[MemoryPart, ...]:
    """The cache: what one request of the greatest length needs of it. Empty where it does not fit or is not known."""
    have, need = capacity.available_bytes, capacity.needed_bytes
    if have is None or need is None or need > have:
        return ()
    length = number(capacity.max_model_len)
    return (
        MemoryPart(need, f"one request of {length} tokens: {size(need)}", "need"),
        MemoryPart(have - need, f"left for others: {size(have - need)}", "cache"),
    )
