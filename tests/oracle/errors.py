"""What goes wrong in asking, as opposed to what vLLM refuses."""

from __future__ import annotations


class OracleError(Exception):
    """The question or the environment is no good; the message tells the person who asks what to do."""
