"""What is told where kvplan itself fails: one line, or with `--debug` Python's traceback.

The words of the exception are left out of the line: they may hold anything of a file that was read.
"""

from __future__ import annotations

import errno
import traceback
from collections.abc import Sequence

import click

from kvplan.cli.output import give_up_stdout, line, lines
from kvplan.errors import DEBUG, described

FLAG = DEBUG
_META = "kvplan.debug"
_STREAM_ENDS = (errno.ENOSPC, errno.EIO, errno.EBADF)


def option() -> click.Option:
    """`--debug`, which every command takes."""
    words = "Where kvplan itself fails, show the traceback."
    return click.Option([FLAG], is_flag=True, expose_value=False, callback=_remember, help=words)


def _remember(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
    ctx.meta[_META] = value


def debugging(ctx: click.Context) -> bool:
    """Whether the command of `ctx` was given `--debug`."""
    return bool(ctx.meta.get(_META))


def wanted(words: Sequence[str]) -> bool:
    """Whether a command line asks for the traceback: `--debug` before the words of a literal command."""
    own = words[: words.index("--")] if "--" in words else words
    return FLAG in own


def tell(error: Exception, words: Sequence[str]) -> None:
    """Tell on standard error what nobody foresaw. Nothing goes to standard output any more."""
    full = isinstance(error, OSError) and error.filename is None and error.errno in _STREAM_ENDS
    give_up_stdout()
    if full:
        line(f"kvplan: the output cannot be written: {getattr(error, 'strerror', '')}")
    elif wanted(words):
        lines("".join(traceback.format_exception(error)))
    else:
        line(f"kvplan: {described(error)}")
