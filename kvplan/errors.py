"""The one way kvplan refuses its own input."""


class InputError(Exception):
    """The input cannot be used: a file, a field or an option is wrong.

    The message is for the person at the terminal: it names the file (or option), the field and the fix, in one
    line. The command line prints it on stderr and exits with 2. What vLLM itself would refuse is not an
    InputError but an outcome of the plan.
    """
