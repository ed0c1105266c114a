"""How far something is that takes long, told on standard error where somebody watches."""

from __future__ import annotations

import sys
import time

from kvplan.cli.output import say
from kvplan.runs.progress import Observer, Part, Progress, nobody

PATIENCE = 2.0
"""Seconds before progress is told, and between one line and the next."""


def teller() -> Observer:
    """An observer that tells what is due; it stays silent where nobody watches."""
    if not sys.stderr.isatty():
        return nobody
    due = time.monotonic() + PATIENCE

    def tell(progress: Progress) -> None:
        nonlocal due
        if time.monotonic() >= due:
            due = time.monotonic() + PATIENCE
            say([f"{words(progress)} …"])

    return tell


def words(progress: Progress) -> str:
    """`120 of 300 files, 17 launches so far`."""
    counted = f"{progress.done:,} of {progress.total:,} {progress.part}"
    if progress.part is Part.STEPS:
        return f"{counted} explained so far"
    return f"{counted} so far" if progress.launches is None else f"{counted}, {progress.launches:,} launches so far"
