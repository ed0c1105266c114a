"""`python -m kvplan` is the `kvplan` command."""

from __future__ import annotations

import gc
import sys

COLLECT_AFTER = 50_000
"""New objects after which Python looks for garbage. Modules that are imported leave none: with Python's 700 a tenth of
the time of one check goes into looking at their classes again and again."""


def run() -> None:
    """The command, loaded here so that Ctrl-C ends it quietly while it is still being imported."""
    gc.set_threshold(COLLECT_AFTER)
    try:
        from kvplan.cli import main

        main()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    run()
