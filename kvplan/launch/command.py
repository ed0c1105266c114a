"""A literal command line: what stands before vLLM's own words, and which front door it opens."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from kvplan.errors import InputError
from kvplan.launch.environment import split_assignment
from kvplan.launch.parser import Entry
from kvplan.launch.tokens import Token

EXPECTED = (
    "expected `[NAME=VALUE …] vllm serve MODEL [options]` or "
    "`python -m vllm.entrypoints.openai.api_server --model MODEL [options]`"
)

_PREFIXES = frozenset({"exec", "nohup", "time", "command"})
_PYTHON = re.compile(r"python(?:3(?:\.\d+)?)?", re.ASCII)
_MODULES = {
    "vllm.entrypoints.openai.api_server": Entry.MODULE,
    "vllm.entrypoints.cli.main": Entry.SERVE,
}


@dataclass(frozen=True, slots=True)
class Command:
    """A command taken apart."""

    environment: dict[str, str]
    entry: Entry
    arguments: tuple[Token, ...]
    """The words after `serve`, or after the module's name."""


def split_command(tokens: Sequence[Token]) -> Command:
    """Take a literal command apart; raises InputError where it does not start vLLM's server."""
    words = list(tokens)
    environment = _take_prefix(words)
    if not words:
        raise InputError(f"there is no command; {EXPECTED}")
    program = PurePosixPath(words[0].text).name
    if words[0].text == "serve":
        return Command(environment, Entry.SERVE, tuple(words[1:]))
    if program == "vllm":
        return _after_vllm(environment, words[1:])
    if _PYTHON.fullmatch(program):
        return _after_python(environment, words[1:])
    raise InputError(f"{words[0].text[:80]!r} does not start vLLM's server; {EXPECTED}")


def _take_prefix(words: list[Token]) -> dict[str, str]:
    """Remove assignments, `env` and `exec` from the front of `words`."""
    environment: dict[str, str] = {}
    while words:
        text = words[0].text
        pair = split_assignment(text)
        if pair is not None:
            environment[pair[0]] = pair[1]
            del words[0]
        elif text in _PREFIXES:
            del words[0]
        elif PurePosixPath(text).name == "env":
            del words[0]
            _take_env_options(words, environment)
        else:
            break
    return environment


def _take_env_options(words: list[Token], environment: dict[str, str]) -> None:
    while words and words[0].text.startswith("-"):
        flag = words.pop(0).text
        if flag in ("-i", "-", "--ignore-environment"):
            environment.clear()
        elif flag in ("-u", "--unset") and words:
            environment.pop(words.pop(0).text, None)
        elif flag.startswith("--unset="):
            environment.pop(flag.partition("=")[2], None)
        elif flag == "--":
            return
        else:
            raise InputError(f"env {flag[:80]}: kvplan does not read this option of env; {EXPECTED}")


def _after_vllm(environment: dict[str, str], words: list[Token]) -> Command:
    if words and words[0].text == "serve":
        return Command(environment, Entry.SERVE, tuple(words[1:]))
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
    if entry is Entry.SERVE:
        return _after_vllm(environment, words[2:])
    return Command(environment, entry, tuple(words[2:]))
