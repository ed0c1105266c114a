"""The sheet that texts are written on keeps to its width and loses no word."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvplan.report.canvas import Canvas
from kvplan.report.page import Page

word = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=60)
widths = st.integers(min_value=40, max_value=120)


def written(width: int, colour: bool = False) -> Page:
    return Page(Canvas(width, colour))


@given(st.lists(word), widths, st.integers(min_value=0, max_value=6))
def test_paragraphs_keep_width_and_words(words: list[str], width: int, hanging: int) -> None:
    page = written(width)
    page.line(" ".join(words), indent=2, hanging=hanging)
    assert all(len(line) <= width for line in page.text().splitlines())
    assert "".join(page.text().split()) == "".join(words)


@given(st.lists(st.tuples(word, st.lists(word).map(" ".join)), min_size=1, max_size=5), st.integers(80, 200))
def test_pairs_keep_width_and_words(rows: list[tuple[str, str]], width: int) -> None:
    page = written(width)
    page.pairs(rows)
    assert all(len(line) <= width for line in page.text().splitlines())
    shown = sorted("".join(page.text().split()))
    assert shown == sorted("".join(f"{name}{value}" for name, value in rows).replace(" ", ""))


def test_a_hanging_paragraph() -> None:
    page = written(40)
    page.line(("label:", "error"), "one two three four five six seven eight nine", hanging=2)
    assert page.text() == "label: one two three four five six\n  seven eight nine\n"


def test_columns_line_up() -> None:
    page = written(40)
    page.table(("name", "size"), [("a", "1"), ("long", "1,000")], right={"size"})
    assert page.text() == "  name   size\n  a         1\n  long  1,000\n"


def test_the_first_column_is_never_broken() -> None:
    page = written(40)
    page.table(("name", "text"), [("x" * 25, "several words that wrap")])
    assert page.text().splitlines()[1:] == [f"  {'x' * 25}  several", f"{' ' * 29}words that", f"{' ' * 29}wrap"]


def test_a_line_to_copy_is_never_broken() -> None:
    page = written(40)
    page.unbroken("word " * 20 + "end", indent=2)
    assert page.text().count("\n") == 1


@pytest.mark.parametrize("colour", [True, False])
def test_styles_are_codes_around_words(colour: bool) -> None:
    page = written(60, colour)
    page.line(("error:", "error"), ("two words", "bold"), "plain")
    expected = "\x1b[1;38;5;196merror:\x1b[0m \x1b[1mtwo words\x1b[0m plain\n" if colour else "error: two words plain\n"
    assert page.text() == expected


def test_control_characters_are_spelled_out() -> None:
    page = written(60)
    page.line("\x1b[31mred\x07")
    page.pairs([("name", "\x1b]0;title")])
    assert "\x1b" not in page.text()
    assert re.findall(r"\\x1b|\\x07", page.text()) == ["\\x1b", "\\x07", "\\x1b"]


def test_empty_things() -> None:
    page = written(60)
    page.line("")
    page.pairs([])
    page.table(("a",), [])
    assert page.text() == "  a\n"
