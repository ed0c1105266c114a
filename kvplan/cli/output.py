"""Where text goes: standard output or a file, and what happens when it cannot go there."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TextIO

from kvplan.errors import InputError
from kvplan.files import write_whole
from kvplan.report import inert
from kvplan.report.canvas import Canvas
from kvplan.report.formats import FORMATS, Format
from kvplan.report.words import printable


@dataclass(frozen=True, slots=True)
class Target:
    """One of the outputs that were asked for: a format, and the file that it goes to (None: standard output)."""

    format: Format
    file: str | None
    option: str
    """The option that asks for it, for messages."""


def targets(given: Mapping[str, Any]) -> tuple[Target, ...]:
    """The outputs that the options of `output_options` ask for.

    Raises InputError where two of them would write to one place.
    """
    output = given["output"] if _is_file(given["output"]) else None
    option = "--format" if output is None else "--output"
    found = [Target(FORMATS[given["format_name"]], output, option), *_besides(given)]
    places: dict[str | None, str] = {}
    for target in found:
        place = None if target.file is None else os.path.realpath(target.file)
        if place in places:
            where = target.file or "standard output"
            raise InputError(f"{places[place]} and {target.option} both write to {where}: give one another file")
        places[place] = target.option
    return tuple(found)


def _besides(given: Mapping[str, Any]) -> Iterator[Target]:
    for name, one in FORMATS.items():
        file = given.get(f"output_{name}")
        if file is not None:
            yield Target(one, file if _is_file(file) else None, f"--output-{name}")


def deliver(wanted: tuple[Target, ...], render: Callable[[Format, Canvas], str]) -> None:
    """Write every output: all are made before the first is written, and standard output comes last, so that what
    cannot be written leaves nothing there. Raises InputError when a file cannot be written."""
    made = [(target, render(target.format, canvas(target.file))) for target in wanted]
    for target, text in sorted(made, key=lambda pair: pair[0].file is None):
        write(text, target.file, target.option, commands=target.format.commands)


def canvas(output: str | None) -> Canvas:
    """The canvas that the text is for: a plain one for a file, else that of standard output."""
    stream: TextIO | None = sys.stdout
    return Canvas() if _is_file(output) else Canvas(stream=stream)


def write(text: str, output: str | None, option: str = "--output", *, commands: bool = False) -> None:
    """Write `text` to the file `output`, or to standard output where that is None or `-`. `option` is the one that
    names the file, for messages. Without `commands` nothing in the text is meant for a CI runner.

    A reader that has gone away is not an error: the command's exit code still tells its result. Raises InputError
    when the file cannot be written.
    """
    text = text if commands else _watched(text)
    if output is not None and _is_file(output):
        _write_file(text, output, option)
        return
    stream: TextIO | None = sys.stdout
    if stream is None:
        # Closed by the caller (`>&-`), who wants the exit code only.
        return
    encoding = stream.encoding or "utf-8"
    try:
        stream.write(text.encode(encoding, "replace").decode(encoding))
        stream.flush()
    except BrokenPipeError:
        give_up_stdout()
    except OSError as error:
        give_up_stdout()
        raise InputError(f"standard output cannot be written: {error.strerror}") from error


def say(notices: Iterable[str]) -> None:
    """Tell remarks on standard error."""
    for notice in notices:
        line(f"kvplan: {notice}")


def line(text: str) -> None:
    """One line on standard error, whatever is in it; where that is full or closed, nowhere."""
    lines(printable(text))


def lines(text: str) -> None:
    """Lines on standard error, which a CI runner reads like standard output."""
    stream: TextIO | None = sys.stderr
    try:
        if stream is not None:
            encoding = stream.encoding or "utf-8"
            made = inert.lines(text).encode(encoding, "backslashreplace").decode(encoding)
            stream.write(made if made.endswith("\n") else f"{made}\n")
            stream.flush()
    except (OSError, ValueError):
        return


def _watched(text: str) -> str:
    """Text for standard output or a file, made harmless where a runner of GitHub's or Azure's reads along."""
    watched = any(os.environ.get(name) for name in ("GITHUB_ACTIONS", "TF_BUILD", "GITEA_ACTIONS", "FORGEJO_ACTIONS"))
    return inert.lines(text) if watched else text


def _is_file(output: str | None) -> bool:
    return output not in (None, "-")


def give_up_stdout() -> None:
    """Send what is left for standard output nowhere, so that the interpreter does not complain as it ends."""
    try:
        descriptor = sys.stdout.fileno()
    except (OSError, ValueError):
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


def _write_file(text: str, output: str, option: str) -> None:
    try:
        write_whole(output, text)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InputError(f"{option} {output}: cannot be written: {reason}") from error
