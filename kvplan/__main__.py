"""`python -m kvplan` is the `kvplan` command."""

from __future__ import annotations

import sys


def run() -> None:
    """The command, loaded here so that Ctrl-C ends it quietly while it is still being imported."""
    try:
        from kvplan.cli import main

        main()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    run()
