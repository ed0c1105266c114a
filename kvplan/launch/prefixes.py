"""What may stand before a program on a command line: assignments, `env`, `exec` and other programs that start it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePosixPath
from typing import Protocol, TypeVar

from kvplan.launch.environment import split_assignment

_STARTERS = frozenset({"exec", "nohup", "time", "command", "builtin", "then", "do", "!", "setsid", "tini", "dumb-init"})
_FLAGS_OF_STARTERS = frozenset({"--", "-g", "-s", "-p", "-a", "-c", "-l"})


class Word(Protocol):
    """A word of a command line, of any kind."""

    @property
    def text(self) -> str:
        """What it says."""


Kind = TypeVar("Kind", bound=Word)


def strip(
    words: Sequence[Kind],
    *,
    split: Callable[[Kind], Iterable[Kind]] | None = None,
    unread: Callable[[str], None] = lambda _: None,
) -> tuple[list[Kind], dict[str, Kind]]:
    """The words from the program on, and the words that assign variables before it, by the variable.

    `split` divides the command line that `env -S` takes as one word; `unread` is told options of `env` that mean
    nothing here, and may raise.
    """
    rest, assigned = list(words), dict[str, Kind]()
    while rest:
        text = rest[0].text
        name = PurePosixPath(text).name
        pair = split_assignment(text)
        if pair is not None:
            assigned[pair[0]] = rest.pop(0)
        elif name in _STARTERS:
            del rest[0]
            while rest and rest[0].text in _FLAGS_OF_STARTERS:
                del rest[0]
        elif name == "env":
            del rest[0]
            _take_options_of_env(rest, assigned, split, unread)
        else:
            break
    return rest, assigned


def _take_options_of_env(
    rest: list[Kind],
    assigned: dict[str, Kind],
    split: Callable[[Kind], Iterable[Kind]] | None,
    unread: Callable[[str], None],
) -> None:
    while rest and rest[0].text.startswith("-"):
        flag = rest.pop(0).text
        if flag in ("-i", "-", "--ignore-environment"):
            assigned.clear()
        elif flag in ("-u", "--unset") and rest:
            assigned.pop(rest.pop(0).text, None)
        elif flag.startswith("--unset="):
            assigned.pop(flag.partition("=")[2], None)
        elif flag in ("-S", "--split-string") and split is not None and rest:
            rest[0:1] = split(rest[0])
        elif flag == "--":
            return
        else:
            unread(flag)
