"""A literal command line: what stands before vLLM's own words, and which front door it opens."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import NoReturn

from kvplan.errors import InputError
from kvplan.launch import prefixes
from kvplan.launch.parser import EntryPoint
from kvplan.launch.tokens import Token

EXPECTED = (
    "expected `[NAME=VALUE …] vllm serve MODEL [options]` or "
    "`python -m vllm.entrypoints.openai.api_server --model MODEL [options]`"
)

PYTHON = re.compile(r"python(?:3(?:\.\d+)?)?", re.ASCII)
"""Names of the program that runs modules."""
_MODULES = {
    "vllm.entrypoints.openai.api_server": EntryPoint.MODULE,
    "vllm.entrypoints.cli.main": EntryPoint.SERVE,
}


@dataclass(frozen=True, slots=True)
class Command:
    """A command taken apart."""

    environment: dict[str, str]
    entry: EntryPoint
    arguments: tuple[Token, ...]
    """The words after `serve`, or after the module's name."""


def split_command(tokens: Sequence[Token]) -> Command:
    """Take a literal command apart; raises InputError where it does not start vLLM's server."""
    words, assigned = prefixes.strip(tokens, unread=_refuse)
    environment = {name: word.text.partition("=")[2] for name, word in assigned.items()}
    if not words:
        raise InputError(f"there is no command; {EXPECTED}")
    program = PurePosixPath(words[0].text).name
    if words[0].text == "serve":
        return Command(environment, EntryPoint.SERVE, tuple(words[1:]))
    if program == "vllm":
        return _after_vllm(environment, words[1:])
    if PYTHON.fullmatch(program):
        return _after_python(environment, words[1:])
    raise InputError(f"{words[0].text[:80]!r} does not start vLLM's server; {EXPECTED}")


def _refuse(option: str) -> NoReturn:
    raise InputError(f"env {option[:80]}: kvplan does not read this option of env; {EXPECTED}")


def _after_vllm(environment: dict[str, str], words: list[Token]) -> Command:
    if words and words[0].text == "serve":
        return Command(environment, EntryPoint.SERVE, tuple(words[1:]))
    given = f"`vllm {words[0].text[:80]}`" if words else "`vllm` alone"
    raise InputError(f"{given} does not start vLLM's server; {EXPECTED}")


def _after_python(environment: dict[str, str], words: list[Token]) -> Command:
    while words and words[0].text in ("-u", "-O", "-OO", "-B", "-I", "-s", "-E"):
        del words[0]
    if words and words[0].text.startswith("-m") and words[0].text != "-m":
        words[0:1] = [words[0].with_text("-m"), words[0].with_text(words[0].text[2:])]
    if len(words) < 2 or words[0].text != "-m":
        raise InputError(f"this python command does not start vLLM's server; {EXPECTED}")
    entry = _MODULES.get(words[1].text)
    if entry is None:
        raise InputError(f"`python -m {words[1].text[:80]}` does not start vLLM's server; {EXPECTED}")
    if entry is EntryPoint.SERVE:
        return _after_vllm(environment, words[2:])
    return Command(environment, entry, tuple(words[2:]))
