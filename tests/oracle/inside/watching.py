"""What vLLM says while it starts: its log, and every choice of an attention backend with the reasons against others."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from tests.oracle.inside.read.plain import plain

MOST_LINES = 400
LONGEST_LINE = 600


class Log:
    """The lines that loggers of vLLM got, whatever their level and handlers."""

    def __init__(self) -> None:
        self.records: list[tuple[str, str]] = []
        """(level, message), in order."""

    def attach(self) -> None:
        """Listen from now on."""
        logging.Logger.handle = _listening(self.records, logging.Logger.handle)  # type: ignore[method-assign, assignment]

    def lines(self, most: int, without: str | None = None) -> list[str]:
        """The last `most` lines, those with `without` left out."""
        kept = [(level, text) for level, text in self.records if without is None or without not in text]
        return [f"{level}: {text[:LONGEST_LINE]}" for level, text in kept][-most:]


def _listening(
    records: list[tuple[str, str]], handle: Callable[[logging.Logger, logging.LogRecord], object]
) -> Callable[[logging.Logger, logging.LogRecord], None]:
    def listening(self: logging.Logger, record: logging.LogRecord) -> None:
        if self.name.startswith("vllm") and len(records) < MOST_LINES:
            records.append((record.levelname, _message(record)))
        handle(self, record)

    return listening


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:
        return str(record.msg)


def watch_backends(platform: type) -> list[dict[str, Any]]:
    """A list that grows with every different answer of the platform's `get_valid_backends`, where it has one."""
    chosen: list[dict[str, Any]] = []
    real = getattr(platform, "get_valid_backends", None)
    if real is None:
        return chosen
    function = real.__func__

    def watching(cls: type, *args: Any, **keywords: Any) -> Any:
        answer = function(cls, *args, **keywords)
        told = _choice(answer, keywords.get("attn_selector_config", args[1] if len(args) > 1 else None))
        if told not in chosen:
            chosen.append(told)
        return answer

    platform.get_valid_backends = classmethod(watching)  # type: ignore[attr-defined]
    return chosen


def _choice(answer: Any, selector: Any) -> dict[str, Any]:
    try:
        valid, invalid = answer[0], answer[1]
        reasons = {backend.name: why[1] if isinstance(why, tuple) else why for backend, why in invalid.items()}
        return {
            "selector": repr(selector),
            "valid": [choice.backend.name if hasattr(choice, "backend") else _name(choice) for choice in valid],
            "invalid": plain(reasons),
        }
    except Exception as error:
        return {"hook_error": repr(error)}


def _name(choice: Any) -> str:
    """The backend's name in a tuple that also holds its priority."""
    return next((part.name for part in choice if hasattr(part, "name")), str(choice))
