"""How tests ask kvplan: a command line run in this process, or the plan of one launch."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from click.testing import CliRunner, Result

from kvplan.checkpoint import Checkpoint
from kvplan.cli import main
from kvplan.engine import Plan, plan
from kvplan.launch.build import from_command
from kvplan.launch.hardware import parse_gpu
from kvplan.launch.sizes import parse_size
from kvplan.launch.values import Launch
from kvplan.releases import resolve
from kvplan.runs.launching import Loader, Sources, weighed

GIB = 1 << 30


def kvplan(*arguments: str, stdin: str | None = None, width: int | None = None) -> Result:
    """A command line, in a terminal of that width; a crash is a failing test."""
    environment = None if width is None else {"COLUMNS": str(width)}
    result = CliRunner().invoke(main, list(arguments), input=stdin, env=environment, prog_name="kvplan")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "internal error" not in result.stderr, result.stderr
    return result


def told(command: str, *arguments: str, stdin: str | None = None) -> dict[str, Any]:
    """What a command says as JSON."""
    report: dict[str, Any] = json.loads(kvplan(command, "--format", "json", *arguments, stdin=stdin).stdout)
    return report


def launched(
    command: str | Sequence[str],
    *,
    release: str = "0.33.0",
    gpu: str | None = "h200",
    memory: int | str | None = 60 * GIB,
    environment: Mapping[str, str] | None = None,
) -> Launch:
    """The launch of a literal `vllm serve` command, in shell quoting or as words. `memory` is a GPU's for the cache, in
    bytes or as text."""
    return from_command(
        shlex.split(command) if isinstance(command, str) else list(command),
        release=resolve(release),
        hardware=None if gpu is None else parse_gpu(gpu),
        available_kv_memory=parse_size(memory, "memory") if isinstance(memory, str) else memory,
        environment=environment,
    )


def planned(command: str | Sequence[str], *, weights: str | None = None, **launch: Any) -> Plan:
    """The plan of such a command, with its model and draft from catalog or directory; the rest is for `launched`."""
    loaded = Loader(Sources(offline=True)).load(launched(command, **launch))
    return plan(weighed(loaded.checkpoint, weights), loaded.launch, draft=loaded.draft)


def planned_with(model: Checkpoint, flags: Sequence[str], draft: Checkpoint | None = None, **launch: Any) -> Plan:
    """The plan of `vllm serve model FLAGS` for a checkpoint that is in no file; the rest is for `launched`."""
    return plan(model, launched(["vllm", "serve", "model", *flags], **launch), draft=draft)


def retyped(command: Sequence[str], words: str) -> tuple[list[str], str | None, int | None]:
    """A literal command with a proposed change typed into it, the release to use where it names one, and the number of
    GPUs where it does."""
    typed, release, gpus = list(command), None, None
    for part in words.split(" with "):
        if part.startswith("use vLLM "):
            release = part.removeprefix("use vLLM ")
        elif part.startswith("drop "):
            typed = list(_left(typed, part.removeprefix("drop ").replace(" and ", ", ").split(", ")))
        elif part.endswith((" GPUs", " GPU")):
            gpus = int(part.split()[0].replace(",", ""))
        elif part.partition("=")[0].isupper():
            typed = [part, *typed]
        else:
            added = shlex.split(part)
            typed = [*_left(typed, [word for word in added if word.startswith("--")]), *added]
    return typed, release, gpus


def _left(command: Sequence[str], names: Sequence[str]) -> Iterator[str]:
    """The words without those options and variables, values included."""
    leaving = False
    for word in command:
        name = word.partition("=")[0]
        if name.startswith("-") and not name.lstrip("-").isdecimal():
            leaving = name in names
        elif name in names:
            continue
        if not leaving:
            yield word
