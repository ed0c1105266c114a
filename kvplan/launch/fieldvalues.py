"""What pydantic takes for the fields of config objects, such as those of `--attention-config`.

`data/config_values.json` has, for each option whose JSON becomes a config class (--speculative-config among them), the
fields whose types can be told from the class: annotations of bool, int, float, str, list, dict and Literal, with their
bounds. The rows of a field are runs of releases: `kinds`, `choices`, `names` (of an enumeration, in any case), `null`,
`above`, `least`, `most`, `below`, `since`, `until`. Fields with a type of their own are not in it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from kvplan.releases import Release, Span

_ON = frozenset({"true", "t", "yes", "y", "on", "1", "1.0"})
_OFF = frozenset({"false", "f", "no", "n", "off", "0", "0.0"})
_SIDES = (
    ("above", "greater than", float.__gt__),
    ("least", "greater than or equal to", float.__ge__),
    ("most", "less than or equal to", float.__le__),
    ("below", "less than", float.__lt__),
)
_TEXTS = {
    "bool": "Input should be a valid boolean",
    "int": "Input should be a valid integer",
    "float": "Input should be a valid number",
    "str": "Input should be a valid string",
    "list": "Input should be a valid list",
    "dict": "Input should be a valid dictionary",
}


def switch(value: object) -> bool | None:
    """A switch within JSON, in one of the forms that pydantic reads; None for anything else."""
    text = str(value).strip().lower()
    return True if text in _ON else False if text in _OFF else None


def objections(option: str, field: str, value: object, release: Release) -> tuple[str, ...]:
    """Pydantic's sentences about the value of a field, one for each type that it could have; none where it fits."""
    for row in _table().get(option, {}).get(field, ()):
        if release.within(Span(since=row.get("since"), until=row.get("until"))):
            return _judged(row, value)
    return ()


def _judged(row: Mapping[str, Any], value: object) -> tuple[str, ...]:
    if value is None and row.get("null"):
        return ()
    found = list(_type_objections(row, value))
    if any(objection is None for objection in found):
        bound = _bound(row, value)
        return () if bound is None else (bound,)
    return tuple(objection for objection in found if objection is not None)


def _type_objections(row: Mapping[str, Any], value: object) -> Iterator[str | None]:
    """For each type that the field may have, what is wrong with the value; None where nothing is."""
    for kind in row.get("kinds", ()):
        yield None if _fits(kind, value) else _TEXTS[kind]
    choices = row.get("choices", ())
    if choices:
        known = any(type(value) is type(choice) and value == choice for choice in choices)
        yield None if known else f"Input should be {_listed(choices)}"
    names = row.get("names", ())
    if names:
        known = isinstance(value, str) and value.upper() in names
        yield None if known else f"Value error, Unknown backend: '{value}'. Valid options are: {', '.join(names)}"


def _fits(kind: str, value: object) -> bool:
    match kind:
        case "bool":
            return not isinstance(value, (list, dict)) and switch(value) is not None
        case "int":
            return _number(value) is not None and float(_number(value) or 0).is_integer()
        case "float":
            return _number(value) is not None
        case "str":
            return isinstance(value, str)
        case "list":
            return isinstance(value, list)
        case _:
            return isinstance(value, dict)


def _number(value: object) -> float | None:
    if not isinstance(value, (bool, int, float, str)):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def _bound(row: Mapping[str, Any], value: object) -> str | None:
    number = _number(value)
    for side, words, holds in _SIDES:
        if side in row and number is not None and not holds(number, float(row[side])):
            return f"Input should be {words} {row[side]:g}"
    return None


def _listed(choices: list[Any]) -> str:
    texts = [repr(choice) for choice in choices]
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} or {texts[-1]}"


@cache
def _table() -> Mapping[str, Mapping[str, list[Mapping[str, Any]]]]:
    path = Path(__file__).parent / "data" / "config_values.json"
    table: Mapping[str, Mapping[str, list[Mapping[str, Any]]]] = json.loads(path.read_text("utf-8"))
    return table
