"""Time for work on what nobody vouches for: what takes longer is broken off and told."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

READING = 5.0
"""Seconds of computing for the text of one file."""
PLANNING = 10.0
"""The same for one launch."""
FILE = 60.0
"""The same for all launches of one file."""


class OutOfTime(BaseException):
    """The time is used up."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Break the work inside off with OutOfTime once it has computed for so long.

    Only the time that this process itself computes counts, so that a busy machine changes no answer. Off the main
    thread and where the system has no such clock there is no limit. Within another limit the inner one counts.
    """
    usable = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
    if not usable or signal.getitimer(signal.ITIMER_VIRTUAL)[0]:
        yield
        return
    before = signal.signal(signal.SIGVTALRM, _break_off)
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _break_off(_signal: int, _frame: FrameType | None) -> None:
    raise OutOfTime
