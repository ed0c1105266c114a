"""Why a settings file does not have its shape, in one line that names file, key and fix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from kvplan.errors import InputError
from kvplan.runs.settings.shape import SettingsFile

Place = Sequence[str | int]
"""The way to a value: keys, and numbers of a list's items from 0."""

_MEANT = {"release": "vllm-version", "version": "vllm-version", "memory": "available-kv-memory", "models": "catalog"}
"""Keys that somebody may expect at the top, and what they are called."""

_KINDS = {
    bool: "a truth value",
    int: "a number",
    float: "a number",
    str: "a string",
    list: "a list",
    dict: "a table",
}


def problem(file: str, place: Place, says: str) -> InputError:
    """The refusal of a value: `kvplan.toml: suppress[1].rule: …`."""
    return InputError(f"{file}: {written(place)}: {says}")


def written(place: Place) -> str:
    """`suppress[1].rule`."""
    return "".join(f"[{step + 1}]" if isinstance(step, int) else f".{step}" for step in place).removeprefix(".")


def refusal(file: str, document: Mapping[str, Any], error: ValidationError) -> InputError:
    """The refusal of the whole file: of a key that there is none, or of the first value that has another type."""
    first = min(error.errors(), key=lambda one: one["type"] != "extra_forbidden")
    if first["type"] == "extra_forbidden":
        *above, key = first["loc"]
        return InputError(f"{file}: there is no setting {written(first['loc'])}{_hint(str(key), above)}")
    place, says = _said(document, first)
    return problem(file, place, says)


def _said(document: Mapping[str, Any], error: ErrorDetails) -> tuple[Place, str]:
    """The place of a value, and what is wrong with it."""
    place, kind = error["loc"], error["type"]
    field, table = _field(place)
    example = _example(field)
    if not place:
        return ("tool", "kvplan"), f"is {_described(document)}; write a table: [tool.kvplan]"
    if kind == "missing":
        return place, f'is missing: write {place[-1]} = "{example}"'
    if kind == "value_error":
        return place, str(error["ctx"]["error"])
    whole = place[:-1] if isinstance(place[-1], int) else place
    value = _value(document, whole)
    if kind == "list_type" or whole != place:
        if table is not None:
            return whole, f"is {_described(value)}; write a list of tables: [[{written(whole)}]]"
        item = value if isinstance(value, str) else "…"
        return whole, _mistyped(whole, value, "a list of strings", f'["{item}"]')
    if kind in ("model_type", "dict_type"):
        return place, f"is {_described(value)}; write a table: [{written(place)}]"
    if kind == "literal_error" and isinstance(value, str):
        return place, f"{value[:80]!r} is none of {', '.join(_choices(field))}"
    if kind.startswith("date"):
        return place, _mistyped(place, value, "a date", example)
    return place, _mistyped(place, value, "a string", f'"{example}"')


def _mistyped(place: Place, value: object, wanted: str, example: str) -> str:
    return f"is {_described(value)}, not {wanted}: write {place[-1]} = {example}"


def _described(value: object) -> str:
    return _KINDS.get(type(value), "a date or time")


def _value(document: Mapping[str, Any], place: Place) -> object:
    value: Any = document
    for step in place:
        value = value[step]
    return value


def _field(place: Place) -> tuple[FieldInfo | None, type[BaseModel] | None]:
    """The field that a place belongs to, and the kind of table that is in it."""
    field: FieldInfo | None = None
    table: type[BaseModel] | None = SettingsFile
    for step in place:
        if isinstance(step, str) and table is not None:
            field = _by_key(table)[step]
            table = next((one for one in _types(field.annotation) if issubclass(one, BaseModel)), None)
    return field, table


def _by_key(table: type[BaseModel]) -> dict[str, FieldInfo]:
    return {str(field.alias): field for field in table.model_fields.values()}


def _types(annotation: Any) -> list[type]:
    """The classes that an annotation names."""
    inner = [one for part in get_args(annotation) for one in _types(part)]
    return [annotation, *inner] if isinstance(annotation, type) else inner


def _example(field: FieldInfo | None) -> str:
    """A value of a field; of a table with free keys, one of its values."""
    example = field.examples[0] if field is not None and field.examples else "…"
    return str(next(iter(example.values())) if isinstance(example, dict) else example)


def _choices(field: FieldInfo | None) -> list[str]:
    """The texts that a field with choices takes, or its values."""

    def texts(annotation: Any) -> list[str]:
        return [text for part in get_args(annotation) for text in ([part] if isinstance(part, str) else texts(part))]

    return texts(field.annotation) if field is not None else []


def _hint(key: str, above: Place) -> str:
    from kvplan.rules.options.availability import nearest

    table = _field(above)[1]
    keys = tuple(_by_key(table)) if table is not None else ()
    meant = {} if above else _MEANT
    near = nearest(key, (*keys, *meant))
    near = None if near is None else meant.get(near, near)
    return f"; did you mean {near}?" if near else f"; there are {', '.join(keys)}"
