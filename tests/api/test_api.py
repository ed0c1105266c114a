"""The Python API: its examples run, it prints nothing, and it fails as it says."""

from __future__ import annotations

import doctest

import pytest

import kvplan
from kvplan import api


def test_the_examples_run() -> None:
    assert doctest.testmod(api) == doctest.TestResults(failed=0, attempted=7)


def test_words_and_text_are_one_command(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["vllm", "serve", "Qwen/Qwen3-0.6B", "--max-model-len", "2048"]
    assert (
        kvplan.plan(words, available_kv_memory=4 << 30).capacity
        == kvplan.plan(" ".join(words), available_kv_memory="4GiB").capacity
    )
    assert capsys.readouterr() == ("", "")


def test_a_start_that_fails_is_no_exception() -> None:
    found = kvplan.check("vllm serve Qwen/Qwen3-0.6B -tp 3", gpu="h100")
    assert not found.ok
    assert found.plan.error is not None
    assert [finding.rule for finding in found.errors] == ["KV401"]
    assert kvplan.check("vllm serve Qwen/Qwen3-0.6B -tp 3", gpu="h100", ignore=frozenset({"KV401"})).errors == ()


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("vllm serve 'Qwen", "quotes"),
        ("ls -l", "vllm"),
        ("vllm serve no/such-model", "offline"),
    ],
)
def test_unusable_input_is_one_line(command: str, text: str) -> None:
    with pytest.raises(kvplan.InputError, match=text) as raised:
        kvplan.plan(command)
    assert "\n" not in str(raised.value)


def test_other_names_are_not_there() -> None:
    with pytest.raises(AttributeError, match="no attribute 'sweep'"):
        kvplan.sweep  # noqa: B018
