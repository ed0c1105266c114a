"""Dataclasses told field by field."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import pytest

from kvplan.report.fieldwise import told


class Colour(StrEnum):
    RED = "red"


@dataclass(frozen=True)
class Part:
    sizes: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Whole:
    name: str
    colour: Colour
    parts: tuple[Part, ...]
    first: Part | None = None
    hidden: int = 0


WHOLE = Whole("a", Colour.RED, (Part(((1, 2), ())),), Part(()))


def test_fields_keep_their_names_and_order() -> None:
    found = told(WHOLE)
    assert found == {
        "name": "a",
        "colour": "red",
        "parts": [{"sizes": [[1, 2], []]}],
        "first": {"sizes": []},
        "hidden": 0,
    }
    assert list(found) == ["name", "colour", "parts", "first", "hidden"]
    assert type(found["colour"]) is str


def test_some_are_left_out_and_others_stand_behind_a_field() -> None:
    found = told(WHOLE, without=frozenset({"hidden", "parts"}), after={"name": {"length": 1, "twice": 2}})
    assert list(found) == ["name", "length", "twice", "colour", "first"]


def test_names_must_be_fields() -> None:
    with pytest.raises(KeyError, match="Whole has no gone"):
        told(WHOLE, without=frozenset({"gone"}))
    with pytest.raises(KeyError, match="Whole has no gone"):
        told(WHOLE, after={"gone": {}})
    with pytest.raises(KeyError, match="Whole has no hidden"):
        told(WHOLE, without=frozenset({"hidden"}), after={"hidden": {"more": 1}})
