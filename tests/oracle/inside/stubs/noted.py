"""What was pretended in this process: it is part of every answer."""

from __future__ import annotations

STUBBED: dict[str, str] = {}
"""Name of a module, package or operator to a line on how it is pretended."""
