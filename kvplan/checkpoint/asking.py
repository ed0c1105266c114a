"""Asking the Hub: who hears of it, how long it may take, and that a Hub that is not there is asked once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import TypeVar

Answer = TypeVar("Answer")

FIRST = 5.0
"""Seconds for the first file of a model, which is small."""
FURTHER = 30.0
"""Seconds for another one of a Hub that answers."""
_SILENCE = 60.0
"""Seconds for which a Hub that could not be reached is not asked again."""

listener: ContextVar[Callable[[str], None] | None] = ContextVar("listener", default=None)
"""Who is told that the Hub is asked."""


class Unreachable(Exception):  # noqa: N818 - what the Hub is, not what went wrong here
    """The Hub did not answer in time, or was not there a moment ago."""


class _Memory:
    """When the Hub was last found not to be there, and why."""

    def __init__(self) -> None:
        self.until = 0.0
        self.reason = ""


_memory = _Memory()


def forget() -> None:
    """Ask again, whatever came of it before."""
    _memory.until = 0.0


def unreachable(reason: str) -> None:
    """Remember that the Hub is not there."""
    _memory.until, _memory.reason = time.monotonic() + _SILENCE, reason


def ask(what: str, request: Callable[[], Answer], seconds: float) -> Answer:
    """The answer to a request, which is made once and given up after so many seconds.

    Raises Unreachable, and what the request itself raises. What is given up goes on in a thread that nobody waits for.
    """
    if time.monotonic() < _memory.until:
        raise Unreachable(f"it could not be reached a moment ago: {_memory.reason}")
    told = listener.get()
    if told is not None:
        told(f"asking the Hub for {what}")
    answers: list[Answer] = []
    failures: list[BaseException] = []

    def run() -> None:
        try:
            answers.append(request())
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run, daemon=True, name="kvplan-hub")
    thread.start()
    thread.join(seconds)
    if failures:
        raise failures[0]
    if not answers:
        reason = f"no answer within {seconds:g} seconds"
        unreachable(reason)
        raise Unreachable(reason)
    return answers[0]
