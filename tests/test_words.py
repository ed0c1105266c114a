"""Numbers and lists in plain English."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvplan.words import counted, listed, number, ranges, runs


@given(st.sets(st.integers(0, 500), min_size=1))
def test_runs_cover_exactly(numbers: set[int]) -> None:
    covered = [each for first, last in runs(numbers) for each in range(first, last + 1)]
    assert covered == sorted(numbers)


def test_ranges() -> None:
    assert ranges([9, 0, 1, 4, 7, 8, 8]) == ["0-1", "4", "7-9"]


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (1_048_576, None, "1,048,576"),
        (656.0, 2, "656"),
        (0.5, None, "0.5"),
        (0.5, 2, "0.50"),
        (1234.567, 2, "1,234.57"),
    ],
)
def test_number(value: float, digits: int | None, text: str) -> None:
    assert number(value, digits) == text


def test_lists() -> None:
    assert listed(["a", "b", "c"]) == "a, b and c"
    assert listed(["a", "b"], "or") == "a or b"
    assert listed(["a"]) == "a"
    assert listed([]) == ""


def test_counts() -> None:
    assert counted(1, "slot") == "1 slot"
    assert counted(1_200, "launch", "launches") == "1,200 launches"
