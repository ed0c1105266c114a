"""The words of a command line, each with where it was written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kvplan.launch.locations import Location, OriginKind


@dataclass(frozen=True, slots=True)
class Token:
    """One word of the command line."""

    text: str
    origin: OriginKind = OriginKind.FLAG
    location: Location | None = None

    def with_text(self, text: str) -> Token:
        """The same place with other text."""
        return replace(self, text=text)


def tokens_of(words: Sequence[str], locations: Sequence[Location | None] | None = None) -> list[Token]:
    """Words as tokens; `locations` says for each word where it stands, or None for a command line."""
    if locations is None:
        return [Token(word) for word in words]
    return [Token(word, OriginKind.FLAG, location) for word, location in zip(words, locations, strict=True)]
