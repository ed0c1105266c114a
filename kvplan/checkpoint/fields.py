"""Typed reading of config fields, with one clear InputError for each way a field can be wrong.

`names` is one field name or several spellings in order of preference; the first one that is present and not null
counts. `file` is what messages call the config. Where `default` is left out, the field is required.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, Final, TypeVar

from kvplan.errors import InputError

Names = str | Sequence[str]
T = TypeVar("T")
D = TypeVar("D")


class _Missing(Enum):
    MISSING = "missing"


MISSING: Final = _Missing.MISSING


def shown(value: object, limit: int = 60) -> str:
    """`value` as one short line for a message."""
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def integer(
    config: Mapping[str, Any],
    names: Names,
    *,
    file: str,
    minimum: int | None = None,
    maximum: int | None = None,
    default: D | _Missing = MISSING,
) -> int | D:
    """A whole number (a float without fraction counts, true and false do not) within the bounds given."""

    def convert(name: str, value: Any) -> int:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool):
            raise _wrong(file, name, value, "a whole number", " without quotes" if _digits(value) else "")
        if minimum is not None and value < minimum:
            raise InputError(f"{file}: field {name!r} is {shown(value)}, below {minimum}: correct the value")
        if maximum is not None and value > maximum:
            raise InputError(f"{file}: field {name!r} is {shown(value)}, above {maximum}: correct the value")
        return value

    return _read(config, names, file, default, convert)


def number(config: Mapping[str, Any], names: Names, *, file: str, default: D | _Missing = MISSING) -> float | D:
    """A finite number."""

    def convert(name: str, value: Any) -> float:
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            raise _wrong(file, name, value, "a number", " without quotes" if _digits(value) else "")
        return float(value)

    return _read(config, names, file, default, convert)


def boolean(config: Mapping[str, Any], names: Names, *, file: str, default: D | _Missing = MISSING) -> bool | D:
    """True or false."""

    def convert(name: str, value: Any) -> bool:
        if not isinstance(value, bool):
            raise _wrong(file, name, value, "true or false")
        return value

    return _read(config, names, file, default, convert)


def string(config: Mapping[str, Any], names: Names, *, file: str, default: D | _Missing = MISSING) -> str | D:
    """A string."""

    def convert(name: str, value: Any) -> str:
        if not isinstance(value, str):
            raise _wrong(file, name, value, "a string")
        return value

    return _read(config, names, file, default, convert)


def mapping(
    config: Mapping[str, Any], names: Names, *, file: str, default: D | _Missing = MISSING
) -> Mapping[str, Any] | D:
    """A nested section."""

    def convert(name: str, value: Any) -> Mapping[str, Any]:
        if not isinstance(value, Mapping):
            raise _wrong(file, name, value, "an object ({…})")
        return value

    return _read(config, names, file, default, convert)


def integers(
    config: Mapping[str, Any],
    names: Names,
    *,
    file: str,
    minimum: int | None = None,
    length: int | None = None,
    default: D | _Missing = MISSING,
) -> tuple[int, ...] | D:
    """A list of whole numbers, with at least `length` entries where that is given."""

    def convert(name: str, value: Any) -> tuple[int, ...]:
        entries = _entries(file, name, value, length)
        return tuple(
            integer({f"{name}[{place}]": entry}, f"{name}[{place}]", file=file, minimum=minimum)
            for place, entry in enumerate(entries)
        )

    return _read(config, names, file, default, convert)


def strings(
    config: Mapping[str, Any],
    names: Names,
    *,
    file: str,
    length: int | None = None,
    default: D | _Missing = MISSING,
) -> tuple[str, ...] | D:
    """A list of strings, with at least `length` entries where that is given."""

    def convert(name: str, value: Any) -> tuple[str, ...]:
        entries = _entries(file, name, value, length)
        return tuple(
            string({f"{name}[{place}]": entry}, f"{name}[{place}]", file=file) for place, entry in enumerate(entries)
        )

    return _read(config, names, file, default, convert)


def _read(
    config: Mapping[str, Any],
    names: Names,
    file: str,
    default: D | _Missing,
    convert: Callable[[str, Any], T],
) -> T | D:
    spellings = (names,) if isinstance(names, str) else tuple(names)
    for name in spellings:
        value = config.get(name)
        if value is not None:
            return convert(name, value)
    if isinstance(default, _Missing):
        others = f" (or {', '.join(map(repr, spellings[1:]))})" if len(spellings) > 1 else ""
        raise InputError(f"{file}: field {spellings[0]!r}{others} is missing: add it, as the model's publisher has it")
    return default


def _entries(file: str, name: str, value: Any, length: int | None) -> Sequence[Any]:
    if not isinstance(value, (list, tuple)):
        raise _wrong(file, name, value, "a list")
    if length is not None and len(value) < length:
        raise InputError(
            f"{file}: field {name!r} has {len(value)} entries where {length} are needed: complete the list"
        )
    return value


def _digits(value: Any) -> bool:
    return isinstance(value, str) and value.strip().lstrip("+-").replace(".", "", 1).isdigit()


def _wrong(file: str, name: str, value: Any, wanted: str, how: str = "") -> InputError:
    return InputError(f"{file}: field {name!r} is {shown(value)}: write {wanted}{how}")
