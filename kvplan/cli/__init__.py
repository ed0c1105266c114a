"""The command line. Each command is loaded when it is called, so that none pays for another's imports."""

from kvplan.cli.application import main

__all__ = ["main"]
