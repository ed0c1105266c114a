"""What a change costs or keeps, from the plans before and after it."""

from __future__ import annotations

from collections.abc import Sequence

from kvplan import words
from kvplan.engine.values import Plan
from kvplan.rules.words import gib


def cost(before: Plan, after: Plan) -> tuple[float, float]:
    """How much is lost: the share of the context, then of the tokens or of the bytes a token; less is better."""
    asked, kept = _length(before), _length(after)
    shorter = 1 - kept / asked if asked and kept else 0.0
    return (round(shorter, 6), round(_heavier(before, after), 6))


def effect(before: Plan, after: Plan, warnings: Sequence[str] = ()) -> str:
    """One phrase: what is kept, what is lost, how many GPUs it takes, and the rules that warn only then."""
    parts = [_context(before, after), _tokens(before, after), _gpus(before, after)]
    if warnings:
        parts.append(f"with the warning{'' if len(warnings) == 1 else 's'} {words.listed(warnings)}")
    return ", ".join(part for part in parts if part)


def _length(plan: Plan) -> int | None:
    return None if plan.settings is None else plan.settings.max_model_len


def _context(before: Plan, after: Plan) -> str:
    """Whether the context stays, and what one request of it needs then."""
    asked, kept = _length(before), _length(after)
    if asked is None or kept is None:
        return ""
    if kept < asked:
        return f"{words.number(kept)} tokens a request instead of {words.number(asked)}"
    needed = None if before.capacity is None else before.capacity.needed_bytes
    needs = None if after.capacity is None else after.capacity.needed_bytes
    if needed and needs and needs < needed:
        return f"keeps {words.number(kept)} tokens: {gib(needs)} instead of {gib(needed)}"
    return ""


def _tokens(before: Plan, after: Plan) -> str:
    """The size of the cache where both are known, else the bytes of a token."""
    had = None if before.capacity is None else before.capacity.tokens
    has = None if after.capacity is None else after.capacity.tokens
    if had and has:
        return "" if had == has else f"a cache of {words.number(has)} tokens instead of {words.number(had)}"
    if has:
        return f"a cache of {words.number(has)} tokens"
    was, now = _bytes_per_token(before), _bytes_per_token(after)
    if was and now and was != now:
        return f"{words.number(now)} bytes a token instead of {words.number(was)}"
    return ""


def _gpus(before: Plan, after: Plan) -> str:
    """How many GPUs it takes, where that changes and the change itself does not say so."""
    had, has = _ranks(before), _ranks(after)
    named = before.launch.hardware.count != after.launch.hardware.count
    return "" if had == has or named else f"on {words.counted(has, 'GPU')} instead of {had}"


def _ranks(plan: Plan) -> int:
    launch = plan.launch
    sizes = ("tensor_parallel_size", "pipeline_parallel_size", "prefill_context_parallel_size")
    found = 1
    for name in sizes:
        value = launch.get(name)
        found *= value if isinstance(value, int) else 1
    return found


def _bytes_per_token(plan: Plan) -> int:
    """Bytes of a token in all layers of one GPU."""
    return round(sum(layer.bytes_per_token for layer in plan.layers))


def _heavier(before: Plan, after: Plan) -> float:
    """By what share a token costs more, 0 where it costs less or nothing is known."""
    was, now = _bytes_per_token(before), _bytes_per_token(after)
    return max(0.0, now / was - 1) if was and now else 0.0
