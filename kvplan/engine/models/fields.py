"""Typed reading of a model's config, with errors that name the file and the field."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kvplan.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kvplan.checkpoint.values import ConfigDict

LARGEST = 2**40
"""No dimension of a model comes near this; what exceeds it is a broken file, not a model."""


class Fields:
    """One config section (top level, or the language model's), read the way vLLM reads attributes.

    A field that is absent and one that is null are the same here, because vLLM's model code treats them alike
    wherever this class is used.
    """

    __slots__ = ("_file", "values")

    def __init__(self, values: ConfigDict, file: str) -> None:
        self.values = values
        self._file = file

    def __contains__(self, name: str) -> bool:
        return self.values.get(name) is not None

    def get(self, name: str) -> Any:
        """The raw value, None where absent."""
        return self.values.get(name)

    def section(self, *names: str) -> Fields | None:
        """The first nested config among `names`."""
        for name in names:
            nested = self.values.get(name)
            if nested is None:
                continue
            if not hasattr(nested, "get"):
                raise self.wrong(name, "must be an object")
            return Fields(nested, self._file)
        return None

    def whole(self, name: str) -> int:
        """A required count of at least 0."""
        value = self.optional(name)
        if value is None:
            raise InputError(
                f"{self._file}: the field '{name}' is missing; it must be a whole number, as in the model's own "
                "config.json"
            )
        return value

    def optional(self, name: str) -> int | None:
        """A count of at least 0, or None."""
        value = self.values.get(name)
        if value is None:
            return None
        return self.number(name, value)

    def first(self, *names: str) -> int | None:
        """The first count present among `names` (vLLM's aliases)."""
        for name in names:
            value = self.optional(name)
            if value is not None:
                return value
        return None

    def positive(self, name: str) -> int:
        """A required count of at least 1."""
        value = self.whole(name)
        if value < 1:
            raise self.wrong(name, "must be at least 1")
        return value

    def text(self, name: str) -> str | None:
        """A string, or None where the field is absent or of another kind."""
        value = self.values.get(name)
        return value if isinstance(value, str) else None

    def items(self, name: str) -> Sequence[Any] | None:
        """A list, or None where absent."""
        value = self.values.get(name)
        if value is None:
            return None
        if not isinstance(value, (list, tuple)):
            raise self.wrong(name, "must be a list")
        return value

    def per_layer(self, name: str, count: int) -> Sequence[Any] | None:
        """A list with a plain value for each of `count` layers, or None where absent (an empty list counts as
        absent)."""
        return self._for_layers(name, self._plain(name), count)

    def pairs_per_layer(self, name: str, count: int) -> Sequence[Any] | None:
        """The same of a list whose entries may be lists; what they hold is for the caller to check."""
        return self._for_layers(name, self.items(name), count)

    def _for_layers(self, name: str, value: Sequence[Any] | None, count: int) -> Sequence[Any] | None:
        if not value:
            return None
        if len(value) < count:
            raise self.wrong(name, f"has {len(value)} entries for {count} layers")
        return value

    def members(self, name: str) -> frozenset[Any]:
        """The plain values of a list, such as numbers of layers; none where it is absent."""
        return frozenset(self._plain(name) or ())

    def _plain(self, name: str) -> Sequence[Any] | None:
        value = self.items(name)
        for place, item in enumerate(value or ()):
            if isinstance(item, (dict, list, tuple)):
                raise self.wrong(f"{name}[{place}]", "must be a plain value")
        return value

    def strings(self, name: str) -> Iterator[str]:
        """The strings of a list field, nothing where absent."""
        return (item for item in self.items(name) or () if isinstance(item, str))

    def factor(self, name: str, value: Any) -> float:
        """`value` of field `name` as a finite number by which something is multiplied, or an InputError."""
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= LARGEST:
            raise self.wrong(name, f"must be a finite number, not {value!r:.60}")
        return value

    def number(self, name: str, value: Any) -> int:
        """`value` of field `name` as a count, or an InputError."""
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LARGEST:
            raise self.wrong(name, f"must be a whole number of at least 0, not {value!r:.60}")
        return value

    def wrong(self, name: str, problem: str) -> InputError:
        """The error for a field that cannot be used."""
        return InputError(f"{self._file}: the field '{name}' {problem}; correct it in the model's config.json")
