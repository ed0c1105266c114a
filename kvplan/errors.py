"""The one way kvplan refuses its own input, and what is told where kvplan itself fails."""

from __future__ import annotations

import traceback
from pathlib import Path

_PACKAGE = Path(__file__).parent
DEBUG = "--debug"
"""The option that shows the traceback of what nobody foresaw."""


class InputError(Exception):
    """The input cannot be used: a file, a field or an option is wrong.

    The message is for the person at the terminal: it names the file (or option), the field and the fix, in one
    line. The command line prints it on stderr and exits with 2. What vLLM itself would refuse is not an
    InputError but an outcome of the plan.
    """


def described(error: BaseException) -> str:
    """The type of an unforeseen exception, and where kvplan was."""
    return f"internal error: {type(error).__name__} at {place(error)}: please report it, with what {DEBUG} shows"


def place(error: BaseException) -> str:
    """The innermost line of kvplan's own code that an exception went through: `engine/planner.py:117`."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).is_relative_to(_PACKAGE)]
    if not own:
        return "an unknown place"
    return f"{Path(own[-1].filename).relative_to(_PACKAGE).as_posix()}:{own[-1].lineno}"
