"""Where kvplan's own pages are, for formats that can lead to one."""

from __future__ import annotations

PROJECT = "https://github.com/kvplan/kvplan"
"""As pyproject.toml says it."""

DOCUMENTATION = f"{PROJECT}/blob/main/docs"
"""The folder of the pages."""


def of_rule(code: str) -> str:
    """The address of what is written about the rule with that code, such as KV201."""
    return f"{DOCUMENTATION}/rules.md#{code.lower()}"
