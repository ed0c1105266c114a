"""What rules say of a start-up error: where it is, and what vLLM itself prints."""

from __future__ import annotations

from kvplan.engine.failures import Failure
from kvplan.engine.values import Plan, StartupError


def indices(plan: Plan, failure: Failure) -> tuple[int, ...]:
    """The decoder layer whose module the failure names."""
    layers = plan.geometry.layers if plan.geometry is not None else ()
    return tuple(layer.index for layer in layers if layer.name == failure.layer)


def said(error: StartupError) -> str:
    """What vLLM itself prints: `ValueError: text`, or the bare exception type."""
    text = " ".join(error.message.split())
    return f"{error.type}: {text}" if text else error.type
