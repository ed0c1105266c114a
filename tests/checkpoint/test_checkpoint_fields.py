"""Typed reading of fields."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvplan.checkpoint import fields
from kvplan.errors import InputError

CONFIG: dict[str, Any] = {"layers": 32, "window": None, "ratio": 0.5, "flag": True, "name": "x", "kinds": ["a", "b"]}


def test_values_of_the_right_type_are_handed_on() -> None:
    assert fields.integer(CONFIG, "layers", file="f", minimum=1, maximum=64) == 32
    assert fields.integer({"n": 4.0}, "n", file="f") == 4
    assert fields.integer(CONFIG, ("heads", "layers"), file="f") == 32
    assert fields.number(CONFIG, "ratio", file="f") == 0.5
    assert fields.boolean(CONFIG, "flag", file="f") is True
    assert fields.string(CONFIG, "name", file="f") == "x"
    assert fields.strings(CONFIG, "kinds", file="f", length=2) == ("a", "b")
    assert fields.integers({"n": [1, 2]}, "n", file="f") == (1, 2)
    assert fields.mapping({"m": {"a": 1}}, "m", file="f") == {"a": 1}


def test_null_and_missing_take_the_default() -> None:
    assert fields.integer(CONFIG, "window", file="f", default=None) is None
    assert fields.integer(CONFIG, "heads", file="f", default=7) == 7
    assert fields.strings({}, "kinds", file="f", default=()) == ()


@pytest.mark.parametrize(
    ("read", "config", "words"),
    [
        (fields.integer, {}, "field 'n' is missing"),
        (fields.integer, {"n": "32"}, "write a whole number without quotes"),
        (fields.integer, {"n": True}, "write a whole number"),
        (fields.integer, {"n": 1.5}, "write a whole number"),
        (fields.number, {"n": {"__float__": "NaN"}}, "write a number"),
        (fields.boolean, {"n": 1}, "write true or false"),
        (fields.string, {"n": 1}, "write a string"),
        (fields.strings, {"n": "abc"}, "write a list"),
        (fields.strings, {"n": [1]}, "n[0]"),
        (fields.integers, {"n": [1, "2"]}, "n[1]"),
        (fields.mapping, {"n": []}, "write an object"),
    ],
)
def test_wrong_values_name_file_field_and_fix(read: Any, config: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        read(config, "n", file="config.json")
    assert str(caught.value).startswith("config.json: field ")
    assert words in str(caught.value)


def test_bounds_and_lengths() -> None:
    with pytest.raises(InputError, match="is 0, below 1"):
        fields.integer({"n": 0}, "n", file="f", minimum=1)
    with pytest.raises(InputError, match="is 9, above 8"):
        fields.integer({"n": 9}, "n", file="f", maximum=8)
    with pytest.raises(InputError, match="has 1 entries where 2 are needed"):
        fields.integers({"n": [1]}, "n", file="f", length=2)
    with pytest.raises(InputError, match=r"'a' \(or 'b'\) is missing"):
        fields.integer({}, ("a", "b"), file="f")


@given(st.one_of(st.text(), st.binary(), st.lists(st.integers()), st.floats()))
def test_long_values_are_shortened(value: object) -> None:
    assert len(fields.shown(value)) <= 60
