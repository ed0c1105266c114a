"""The words helpers, and what makes a token of the skip list readable."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.rules import words


@pytest.mark.parametrize(
    ("indices", "text"),
    [
        ([3], "layer 3"),
        ([0, 1], "layers 0-1"),
        ([5, 0, 1, 1], "layers 0-1, 5"),
        (range(0, 40, 2), "layers 0, 2, 4, 6, 8, 10, … (20 in all)"),
    ],
)
def test_layers(indices: Any, text: str) -> None:
    assert words.layers(indices) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [(64424509440, "60.00 GiB"), (17179869184, "16.00 GiB"), (2 * 2**20, "2.0 MiB"), (41984, "41,984 bytes")],
)
def test_gib(size: int, text: str) -> None:
    assert words.gib(size) == text


def test_texts_are_cut() -> None:
    assert words.tokens(map(str, range(70))).endswith("63 …")
    assert words.one_line("a\n  b [type=value_error, input_value=…]") == "a b"
