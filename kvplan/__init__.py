"""kvplan: what vLLM will do with the KV cache, told before the deploy and without a GPU.

From Python: `kvplan.plan(command, …)` gives a `Plan`, `kvplan.check(command, …)` a `Checked` with its `Finding`s (see
`kvplan.api`).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kvplan.api import Checked, check, plan
    from kvplan.engine.values import Plan
    from kvplan.errors import InputError
    from kvplan.rules.values import Finding, Severity

__version__ = "0.1.0"
__all__ = ["Checked", "Finding", "InputError", "Plan", "Severity", "__version__", "check", "plan"]

_HOMES = {
    "Checked": "kvplan.api",
    "Finding": "kvplan.rules.values",
    "InputError": "kvplan.errors",
    "Plan": "kvplan.engine.values",
    "Severity": "kvplan.rules.values",
    "check": "kvplan.api",
    "plan": "kvplan.api",
}


def __getattr__(name: str) -> object:
    """The API, imported when it is asked for, so that the command line starts without it."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
