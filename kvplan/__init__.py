"""kvplan: what vLLM will do with the KV cache, told before the deploy and without a GPU.

From Python: `kvplan.plan(command, …)` gives a `Plan`, `kvplan.check(command, …)` a `Checked` with its `Finding`s,
`kvplan.scan(paths, …)` a `Scan` of all launches in files, `kvplan.sweep(command, …)` a `Sweep` over the values of
options (see `kvplan.api`).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kvplan.api import Checked, CheckedLaunch, Scan, Sweep, SweptRow, check, plan, scan, sweep
    from kvplan.engine.values import Plan
    from kvplan.errors import InputError
    from kvplan.launch.found import Unreadable
    from kvplan.launch.locations import Location
    from kvplan.report.sweepvalues import Cause, Change, Comparison, Explanation
    from kvplan.rules.suppression import Suppressed
    from kvplan.rules.values import Finding, Severity

__version__ = "0.1.0"

_HOMES = {
    "Cause": "kvplan.report.sweepvalues",
    "Change": "kvplan.report.sweepvalues",
    "Checked": "kvplan.api",
    "CheckedLaunch": "kvplan.api",
    "Explanation": "kvplan.report.sweepvalues",
    "Finding": "kvplan.rules.values",
    "InputError": "kvplan.errors",
    "Location": "kvplan.launch.values",
    "Plan": "kvplan.engine.values",
    "Scan": "kvplan.api",
    "Severity": "kvplan.rules.values",
    "Comparison": "kvplan.report.sweepvalues",
    "Suppressed": "kvplan.rules.suppression",
    "Sweep": "kvplan.api",
    "SweptRow": "kvplan.api",
    "Unreadable": "kvplan.launch.found",
    "check": "kvplan.api",
    "plan": "kvplan.api",
    "scan": "kvplan.api",
    "sweep": "kvplan.api",
}

__all__ = [
    "Cause",
    "Change",
    "Checked",
    "CheckedLaunch",
    "Comparison",
    "Explanation",
    "Finding",
    "InputError",
    "Location",
    "Plan",
    "Scan",
    "Severity",
    "Suppressed",
    "Sweep",
    "SweptRow",
    "Unreadable",
    "__version__",
    "check",
    "plan",
    "scan",
    "sweep",
]


def __getattr__(name: str) -> object:
    """The API, imported when it is asked for, so that the command line starts without it."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
