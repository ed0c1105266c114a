"""Reading a table of a settings file: every value has one type, and every refusal names file, key and fix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from kvplan.errors import InputError


@dataclass(frozen=True, slots=True)
class Table:
    """One table. `where` is its own key with a dot behind it, empty for the whole file."""

    file: str
    data: Mapping[str, Any]
    where: str = ""

    def problem(self, key: str, says: str) -> InputError:
        """The refusal of the value of a key."""
        return InputError(f"{self.file}: {self.where}{key}: {says}")

    def only(self, keys: Sequence[str], meant: Mapping[str, str] | None = None) -> None:
        """Raises InputError, naming the nearest, for a key that is none of `keys`."""
        for key in self.data:
            if key not in keys:
                raise InputError(f"{self.file}: there is no setting {self.where}{key}{_hint(key, keys, meant or {})}")

    def text(self, key: str, example: str) -> str | None:
        """A string; None where the key is missing."""
        value = self.data.get(key)
        if value is not None and not isinstance(value, str):
            raise self._mistyped(key, value, "a string", f'"{example}"')
        return value

    def size(self, key: str) -> str | None:
        """An amount of memory: a string or a number of bytes."""
        value = self.data.get(key)
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        return self.text(key, "60GiB")

    def choice(self, key: str, choices: Sequence[str]) -> str | None:
        """One of some strings."""
        value = self.text(key, choices[0])
        if value is not None and value not in choices:
            raise self.problem(key, f"{value[:80]!r} is none of {', '.join(choices)}")
        return value

    def texts(self, key: str) -> tuple[str, ...] | None:
        """A list of strings."""
        value = self.data.get(key)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            example = value if isinstance(value, str) else "…"
            raise self._mistyped(key, value, "a list of strings", f'["{example}"]')
        return tuple(value)

    def day(self, key: str) -> date | None:
        """A date, as TOML's own or as a string."""
        value = self.data.get(key)
        if isinstance(value, str):
            try:
                return date.fromisoformat(value)
            except ValueError:
                raise self.problem(key, f"{value[:80]!r} is not a date: write {key} = 2027-01-31") from None
        if value is not None and (not isinstance(value, date) or isinstance(value, datetime)):
            raise self._mistyped(key, value, "a date", "2027-01-31")
        return value

    def table(self, key: str) -> Table:
        """A table; an empty one where the key is missing."""
        value = self.data.get(key, {})
        if not isinstance(value, dict):
            raise self.problem(key, f"is {_described(value)}; write a table: [{self.where}{key}]")
        return Table(self.file, value, f"{self.where}{key}.")

    def tables(self, key: str) -> tuple[Table, ...]:
        """A list of tables, each called by its number."""
        value = self.data.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise self.problem(key, f"is {_described(value)}; write a list of tables: [[{self.where}{key}]]")
        return tuple(Table(self.file, item, f"{self.where}{key}[{number}].") for number, item in enumerate(value, 1))

    def _mistyped(self, key: str, value: object, wanted: str, example: str) -> InputError:
        return self.problem(key, f"is {_described(value)}, not {wanted}: write {key} = {example}")


_KINDS = {
    bool: "a truth value",
    int: "a number",
    float: "a number",
    str: "a string",
    list: "a list",
    dict: "a table",
}


def _described(value: object) -> str:
    return _KINDS.get(type(value), "a date or time")


def _hint(key: str, keys: Sequence[str], meant: Mapping[str, str]) -> str:
    from kvplan.rules.options.availability import nearest

    near = nearest(key, (*keys, *meant))
    near = None if near is None else meant.get(near, near)
    return f"; did you mean {near}?" if near else f"; there are {', '.join(keys)}"
