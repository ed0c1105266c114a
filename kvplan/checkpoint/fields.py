"""Typed reading of a config's strings, with one clear InputError for each way a field can be wrong.

`file` is what messages call the config. A field that is null counts as missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from kvplan.errors import InputError

D = TypeVar("D")


def shown(value: object, limit: int = 60) -> str:
    """`value` as one short line for a message."""
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def string(config: Mapping[str, Any], name: str, *, file: str, default: D) -> str | D:
    """The string of a field, or `default` where it is missing."""
    value = config.get(name)
    return default if value is None else _string(file, name, value)


def strings(config: Mapping[str, Any], name: str, *, file: str, default: D) -> tuple[str, ...] | D:
    """The list of strings of a field, or `default` where it is missing."""
    value = config.get(name)
    if value is None:
        return default
    if not isinstance(value, (list, tuple)):
        raise _wrong(file, name, value, "a list")
    return tuple(_string(file, f"{name}[{place}]", entry) for place, entry in enumerate(value))


def _string(file: str, name: str, value: Any) -> str:
    if value is None:
        raise InputError(f"{file}: field {name!r} is missing: add it, as the model's publisher has it")
    if not isinstance(value, str):
        raise _wrong(file, name, value, "a string")
    return value


def _wrong(file: str, name: str, value: Any, wanted: str) -> InputError:
    return InputError(f"{file}: field {name!r} is {shown(value)}: write {wanted}")
