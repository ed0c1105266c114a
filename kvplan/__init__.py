"""kvplan: what vLLM will do with the KV cache, told before the deploy and without a GPU.

From Python: `kvplan.plan(command, …)` and `kvplan.check(command, …)` (see `kvplan.api`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kvplan.api import Checked, check, plan
    from kvplan.errors import InputError

__version__ = "0.1.0"
__all__ = ["Checked", "InputError", "__version__", "check", "plan"]


def __getattr__(name: str) -> object:
    """The API, imported when it is asked for, so that the command line starts without it."""
    if name in {"Checked", "check", "plan"}:
        from kvplan import api

        return getattr(api, name)
    if name == "InputError":
        from kvplan.errors import InputError

        return InputError
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
