"""The known releases and the spans of dated facts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvplan.engine.checks.methods import METHODS
from kvplan.launch.options import table_of
from kvplan.releases import ALWAYS, KNOWN, NEWEST, Release, Span, resolve

OLDEST = KNOWN[0]


@pytest.mark.parametrize(
    ("since", "until"),
    [("0.16", None), (None, "0.17.0"), ("99.0.0", None), ("0.20.2", "0.19.1"), ("", None)],
)
def test_a_span_has_known_ends_in_order(since: str | None, until: str | None) -> None:
    with pytest.raises(ValueError, match=r"known release|ends before"):
        Span(since=since, until=until)


def test_both_ends_belong_to_a_span() -> None:
    span = Span(since="0.18.1", until="0.20.2")
    assert [name for name in KNOWN if span.covers(name)] == ["0.18.1", "0.19.1", "0.20.2"]


@given(st.sampled_from(KNOWN))
def test_an_open_span_holds_in_every_release(name: str) -> None:
    assert resolve(name).within(ALWAYS)
    assert resolve(name).within(Span(since=name, until=name))
    assert resolve(name).within(Span(since=name))
    assert resolve(name).within(Span(until=name))


def test_a_patch_release_is_placed_with_its_minor() -> None:
    assert resolve("0.25.0").within(Span(since="0.25.1"))
    assert Release("99.1.0", NEWEST, beyond_known=True).within(Span(since=NEWEST))
    assert not resolve(OLDEST).within(Span(since=NEWEST))


def test_rows_of_tables_are_spans() -> None:
    """The dates of a row are checked when it is built, in Python and in data files alike."""
    release = resolve(OLDEST)
    assert {row.name for row in METHODS if release.within(row)} >= {"fp8", "gguf"}
    assert all(isinstance(option, Span) for option in table_of(release).by_name.values())
