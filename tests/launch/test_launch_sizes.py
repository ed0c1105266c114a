"""Amounts of memory as people and logs write them."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvplan.errors import InputError
from kvplan.launch.sizes import parse_available, parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("60GiB", 64_424_509_440),
        ("8 GiB", 8_589_934_592),
        ("60GB", 60_000_000_000),
        ("60G", 64_424_509_440),
        ("60g", 60_000_000_000),
        ("64424509440", 64_424_509_440),
        ("4096", 4_096),
        ("1", 1),
    ],
)
def test_amounts(text: str, size: int) -> None:
    assert parse_size(text, "--weights") == size
    assert parse_available(text, "--available-kv-memory") == size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("-1", -1),
        ("-5368709120", -5_368_709_120),
        ("-3.21 GiB", -3_446_711_255),
        ("Available KV cache memory: 57.25 GiB", 61_471_719_424),
        (
            "(Worker_TP0 pid=12) INFO 11-30 10:00:00 Available KV cache memory: -0.5 GiB",
            -536_870_912,
        ),
    ],
)
def test_what_vllm_logs(text: str, size: int) -> None:
    assert parse_available(text, "--available-kv-memory") == size


@pytest.mark.parametrize("text", ["60", "-60", "2", "4095"])
def test_a_forgotten_unit_is_doubted(text: str) -> None:
    bare = text.removeprefix("-")
    with pytest.raises(InputError, match=f"{bare} is {bare} bytes: write the unit, such as {bare}GiB"):
        parse_available(text, "--available-kv-memory")


@pytest.mark.parametrize("text", ["", "-", "--1", "GiB", "nan", "inf", "1e9", "0x10", "1 2GiB", "²", "9" * 30])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="--available-kv-memory"):
        parse_available(text, "--available-kv-memory")


@given(st.text(max_size=40))
def test_any_text_is_an_amount_or_refused(text: str) -> None:
    with suppress(InputError):
        assert -(2**60) < parse_available(text, "--available-kv-memory") < 2**60
