"""How far something is that takes long, told on standard error where somebody watches."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import click

PATIENCE = 2.0
"""Seconds before progress is told, and between one line and the next."""


def teller() -> Callable[[str], None] | None:
    """Takes a line whenever there is one, and tells those that are due; None where nobody watches."""
    if not sys.stderr.isatty():
        return None
    due = time.monotonic() + PATIENCE

    def tell(line: str) -> None:
        nonlocal due
        if time.monotonic() >= due:
            due = time.monotonic() + PATIENCE
            click.echo(f"kvplan: {line} …", err=True)

    return tell
