"""Typed reading of fields."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvplan.checkpoint import fields
from kvplan.errors import InputError

CONFIG: dict[str, Any] = {"window": None, "name": "x", "kinds": ["a", "b"]}


def test_values_of_the_right_type_are_handed_on() -> None:
    assert fields.string(CONFIG, "name", file="f", default=None) == "x"
    assert fields.strings(CONFIG, "kinds", file="f", default=()) == ("a", "b")


def test_null_and_missing_take_the_default() -> None:
    assert fields.string(CONFIG, "window", file="f", default=None) is None
    assert fields.string(CONFIG, "heads", file="f", default="") == ""
    assert fields.strings({}, "kinds", file="f", default=()) == ()


@pytest.mark.parametrize(
    ("read", "config", "words"),
    [
        (fields.string, {"n": 1}, "write a string"),
        (fields.strings, {"n": "abc"}, "write a list"),
        (fields.strings, {"n": ["a", 1]}, "'n[1]' is 1: write a string"),
        (fields.strings, {"n": [None]}, "'n[0]' is missing"),
    ],
)
def test_wrong_values_name_file_field_and_fix(read: Any, config: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        read(config, "n", file="config.json", default=None)
    assert str(caught.value).startswith("config.json: field ")
    assert words in str(caught.value)


@given(st.one_of(st.text(), st.binary(), st.lists(st.integers()), st.floats()))
def test_long_values_are_shortened(value: object) -> None:
    assert len(fields.shown(value)) <= 60
