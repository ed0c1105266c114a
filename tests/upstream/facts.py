"""What is read of a release and what kvplan says of it, in one shape: by subject, names and what is said of each."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from kvplan.releases import Release
from tests.upstream.sources import Sources

Facts: TypeAlias = Mapping[str, Any]
"""Names of one subject, each with what JSON can hold: numbers, texts, lists, objects."""

UNREAD = "\N{BLACK QUESTION MARK ORNAMENT}"
"""Stands for a value that the sources compute: it is not compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One kind of facts: how it is read from sources, and where kvplan keeps it.

    `read` raises Moved where the sources have another shape than it knows. `told` is what kvplan's tables say of a
    release in the same shape; None: kvplan has no table, the facts are only shown. `row` writes a fact as the row that
    `table` needs.
    """

    name: str
    table: str
    """File, and name in it, of kvplan's table."""
    read: Callable[[Sources], Facts]
    told: Callable[[Release], Facts] | None
    row: Callable[[str, Any, str], str] = lambda name, value, since: f"{name}: {json.dumps(value)} since {since}"
    """From name, fact and first release to text."""
    gist: Callable[[Any], Any] = lambda value: value
    """What of a fact is told as news when it changes."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A name of which two sides say different things; None where a side does not have it."""

    subject: str
    name: str
    left: Any
    right: Any

    def __str__(self) -> str:
        left, right = (("absent" if side is ABSENT else json.dumps(side)) for side in (self.left, self.right))
        return f"{self.subject}: {self.name}: {left} against {right}"


class _Absent:
    def __repr__(self) -> str:
        return "absent"


ABSENT = _Absent()


def differences(subject: str, left: Facts, right: Facts) -> Iterator[Difference]:
    """Where the two sides differ, by name; values that were not read agree with anything."""
    for name in sorted(left.keys() | right.keys()):
        one, other = left.get(name, ABSENT), right.get(name, ABSENT)
        if not agree(one, other):
            yield Difference(subject, name, one, other)


def agree(left: Any, right: Any) -> bool:
    """Whether two facts are the same, as JSON sees them: a tuple is a list, 1 is not True."""
    if UNREAD in (left, right) and ABSENT not in (left, right):
        return True
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return all(agree(left.get(key), right.get(key)) for key in left.keys() | right.keys())
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(map(agree, left, right))
    return type(left) is type(right) and left == right
