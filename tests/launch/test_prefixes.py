"""What stands before a program, for command lines and for files alike."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kvplan.launch.prefixes import strip
from kvplan.launch.tokens import Token, tokens_of


def stripped(text: str) -> tuple[str, dict[str, str]]:
    """The command that is left, and the words that assign variables."""
    rest, assigned = strip(tokens_of(text.split()), split=divided)
    return " ".join(word.text for word in rest), {name: word.text for name, word in assigned.items()}


def divided(word: Token) -> Sequence[Token]:
    """A word as the words that it holds, which `+` divides here."""
    return [word.with_text(part) for part in word.text.split("+")]


@pytest.mark.parametrize(
    "before",
    ["exec", "nohup", "time -p", "/usr/bin/env", "setsid", "/sbin/tini -g --", "then", "env -i"],
)
def test_starters_are_passed_by(before: str) -> None:
    rest, assigned = stripped(f"{before} vllm serve m")
    assert (rest, assigned) == ("vllm serve m", {})


def test_assignments_are_kept_until_env_drops_them() -> None:
    assert stripped("A=1 B=2 env -u A C=3 vllm serve m") == ("vllm serve m", {"B": "B=2", "C": "C=3"})
    assert stripped("A=1 env -i C=3 vllm") == ("vllm", {"C": "C=3"})
    assert stripped("A=1 env --unset=A vllm") == ("vllm", {})
    assert stripped("env -- A=1 vllm") == ("vllm", {"A": "A=1"})


def test_a_command_line_in_one_word_is_divided() -> None:
    assert stripped("env -S A=1+vllm+serve m") == ("vllm serve m", {"A": "A=1"})


def test_other_options_of_env_are_told() -> None:
    told: list[str] = []
    strip(tokens_of(["env", "-S", "vllm serve m"]), unread=told.append)
    assert told == ["-S"]
