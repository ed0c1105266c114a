"""kvplan finds its options wherever they stand; every other word reaches the launch room unchanged, in order."""

from __future__ import annotations

from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvplan.cli.commands.check import command as check
from kvplan.cli.words import Words, words_of


def divide(*arguments: str) -> tuple[Words, dict[str, Any]]:
    """The words left over and kvplan's options, as `kvplan check` takes `arguments` apart."""
    with check.make_context("check", list(arguments)) as ctx:
        return words_of(ctx), ctx.params


@pytest.mark.parametrize(
    ("arguments", "left"),
    [
        (["M", "--kv-cache-dtype", "fp8", "-tp", "8"], ["M", "--kv-cache-dtype", "fp8", "-tp", "8"]),
        (["-tp", "8", "M", "--format", "json"], ["-tp", "8", "M"]),
        (["--format=json", "M", "--gpu", "b200", "-dph", "3"], ["M", "-dph", "3"]),
        (
            ["M", "--kv-cache-dtype-skip-layers", "0", "1", "--offline", "--no-enable-prefix-caching"],
            ["M", "--kv-cache-dtype-skip-layers", "0", "1", "--no-enable-prefix-caching"],
        ),
        (["M", "--skip-layers", "0,1", "--vllm_version", "0.25.1"], ["M", "--skip-layers", "0,1"]),
        (["-"], ["-"]),
        (["M", "--max-model-len", "-1"], ["M", "--max-model-len", "-1"]),
        (["M", "--hf-overrides", '{"a": 1}', "--output", "-tp"], ["M", "--hf-overrides", '{"a": 1}']),
        (["M", "--form", "json"], ["M", "--form", "json"]),
    ],
)
def test_other_words_stay_in_order(arguments: list[str], left: list[str]) -> None:
    assert divide(*arguments)[0] == Words(tuple(left), None)


def test_kvplans_options_have_their_values_wherever_they_stand() -> None:
    _, params = divide("--env", "A=1", "M", "-tp", "8", "--env=B=2=3", "--select", "KV1,KV2", "--gpu", "rtx 4090")
    assert params["env"] == ("A=1", "B=2=3")
    assert params["select"] == ("KV1,KV2",)
    assert params["gpu"] == "rtx 4090"


def test_a_literal_command_is_left_alone() -> None:
    words, params = divide("--gpu", "h200", "--", "X=1", "vllm", "serve", "M", "--format", "json", "--", "-h")
    assert words == Words((), ("X=1", "vllm", "serve", "M", "--format", "json", "--", "-h"))
    assert (params["gpu"], params["format_name"]) == ("h200", "text")


def test_an_empty_literal_command_is_one() -> None:
    assert divide("--")[0] == Words((), ())


@pytest.mark.parametrize(
    "arguments",
    [["M", "--format"], ["M", "--format", "yaml"], ["M", "--offline=yes"], ["M", "--fail-on", "never"]],
)
def test_wrong_use_is_a_usage_error(arguments: list[str]) -> None:
    with pytest.raises(click.UsageError):
        divide(*arguments)


vllm_word = st.text(min_size=1).filter(lambda word: word != "--" and not word.startswith(("--", "-h")))


@given(st.lists(vllm_word), st.lists(st.text()))
def test_no_word_is_lost(options: list[str], literal: list[str]) -> None:
    words, params = divide(*options, "--gpu=h100", "--", *literal)
    assert words == Words(tuple(options), tuple(literal))
    assert params["gpu"] == "h100"
