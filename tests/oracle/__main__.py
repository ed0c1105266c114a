"""`python -m tests.oracle`."""

from __future__ import annotations

from tests.oracle.commands import main

if __name__ == "__main__":
    main(prog_name="python -m tests.oracle")
