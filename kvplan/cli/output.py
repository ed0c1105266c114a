"""Where text goes: standard output or a file, and what happens when it cannot go there."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TextIO

from kvplan.errors import InputError
from kvplan.report.canvas import Canvas


def canvas(output: str | None) -> Canvas:
    """The canvas that the text is for: a plain one for a file, else that of standard output."""
    stream: TextIO | None = sys.stdout
    return Canvas() if _is_file(output) else Canvas(stream=stream)


def write(text: str, output: str | None) -> None:
    """Write `text` to the file `output`, or to standard output where that is None or `-`.

    A reader that has gone away is not an error: the command's exit code still tells its result. Raises InputError
    when the file cannot be written.
    """
    if output is not None and _is_file(output):
        _write_file(text, output)
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


def _write_file(text: str, output: str) -> None:
    try:
        Path(output).write_text(text, encoding="utf-8", errors="replace")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InputError(f"--output {output}: cannot be written: {reason}") from error
