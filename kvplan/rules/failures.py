"""The start-up errors of a plan, as the rules read them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kvplan.engine.values import Plan, StartupError


def all_errors(plan: Plan) -> tuple[StartupError, ...]:
    """The error at which start-up stops and those that wait behind it."""
    return (() if plan.error is None else (plan.error,)) + plan.later_errors


def errors(plan: Plan, *codes: str) -> Iterator[StartupError]:
    """The plan's errors with one of `codes`, first failure first."""
    return (error for error in all_errors(plan) if error.code in codes)


def fact(error: StartupError, name: str) -> Any:
    """One of the values the failing check compared, None where the engine gives none."""
    return error.facts.get(name)


def whole(error: StartupError, name: str) -> int | None:
    """A fact that is a whole number."""
    value = error.facts.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def names(error: StartupError, name: str) -> tuple[str, ...]:
    """A fact that is a list of names."""
    value = error.facts.get(name)
    if isinstance(value, str):
        return (value,)
    return tuple(str(item) for item in value) if isinstance(value, tuple | list | frozenset | set) else ()


def indices(plan: Plan, error: StartupError) -> tuple[int, ...]:
    """The decoder layer whose module the error names."""
    name = error.facts.get("layer")
    layers = plan.geometry.layers if plan.geometry is not None else ()
    return tuple(layer.index for layer in layers if layer.name == name)


def said(error: StartupError) -> str:
    """What vLLM itself prints: `ValueError: text`, or the bare exception type."""
    text = " ".join(error.message.split())
    return f"{error.type}: {text}" if text else error.type
