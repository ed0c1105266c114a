"""The answer that grows while start-up runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class Answer:
    """All that has been read off so far; what is refused later keeps it."""

    told: dict[str, Any]
    """The JSON answer."""
    stage: str = "import"
    """Where start-up is now."""

    def note(self, text: str) -> None:
        """Remember something that a reader of the answer should know about how it was made."""
        self.told["notes"].append(text)
