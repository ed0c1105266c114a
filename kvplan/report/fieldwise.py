"""Values as JSON, field by field: what a dataclass holds is told under the names and in the order of its fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import StrEnum
from functools import cache
from typing import Any

JsonObject = dict[str, Any]


def told(
    value: object, *, without: frozenset[str] = frozenset(), after: Mapping[str, JsonObject] | None = None
) -> JsonObject:
    """A dataclass as a JSON object: its fields but those of `without`, and behind the fields that `after` names what
    it has for them. Raises KeyError for a name that is no field."""
    kind: Any = type(value)
    more = after or {}
    found: JsonObject = {}
    for name in _names(kind, without, frozenset(more)):
        found[name] = plain(getattr(value, name))
        found |= more.get(name, {})
    return found


def plain(value: object) -> Any:
    """A value of a field as JSON knows it."""
    if isinstance(value, StrEnum):
        return str(value)
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if is_dataclass(value):
        return told(value)
    return value


@cache
def _names(kind: Any, without: frozenset[str], used: frozenset[str]) -> tuple[str, ...]:
    names = tuple(field.name for field in fields(kind))
    kept = tuple(name for name in names if name not in without)
    unknown = without.difference(names) | used.difference(kept)
    if unknown:
        raise KeyError(f"{kind.__name__} has no {', '.join(sorted(unknown))} to tell")
    return kept
