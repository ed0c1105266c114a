"""Text that starts nothing where it is shown: no commands of a CI runner, no numbers that are no JSON.

A runner takes a line that begins with `::` for a command, and `##[…` or `##vso[…` wherever it stands, on both outputs
and whatever format they hold.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

_OLD = re.compile(r"##(?=\w*\[)")
_LEADING = re.compile(r"(?m)^(\s*):(?=:)")


def lines(text: str) -> str:
    """Plain text with a blank in what a runner would take for a command."""
    return _OLD.sub("## ", _LEADING.sub(r"\1: ", text)) if "::" in text or "##" in text else text


def markup(text: str) -> str:
    """HTML or XML (escaped already) with a sign spelled out in what a runner would take for a command."""
    return _OLD.sub("&#35;#", text) if "##" in text else text


def dumps(value: Any, indent: int | None = None) -> str:
    """JSON that any reader takes: numbers that are none are told by their names."""
    try:
        text = json.dumps(value, indent=indent, default=str, allow_nan=False)
    except ValueError:
        text = json.dumps(_named(value), indent=indent, default=str, allow_nan=False)
    return _OLD.sub(r"#\\u0023", text) if "##" in text else text


def _named(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Mapping):
        return {_key(name): _named(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_named(one) for one in value]
    return value


def _key(name: Any) -> Any:
    return _named(name) if isinstance(name, float) else name
