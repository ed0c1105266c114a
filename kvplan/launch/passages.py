"""Pieces of text that know where every character of theirs was written.

A word of a launch may come out of a quoted string in a folded YAML block: it is cut, joined and unquoted on its
way, and a finding must still point at its place in the file.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from kvplan.launch.locations import Location

Run = tuple[int, int, int]
"""From this offset of the text on: line and column of its characters, which follow each other in one line."""


@dataclass(frozen=True, slots=True)
class Passage:
    """Text with the places of its characters, and with what in it is not known.

    `unknown` holds, for each part that could not be worked out (an unset variable, the output of a command), its
    offset in `text` and its spelling; the text has the same spelling there.
    """

    text: str
    file: str
    runs: tuple[Run, ...]
    unknown: tuple[tuple[int, str], ...] = ()

    @property
    def location(self) -> Location:
        """Where it begins."""
        return self.at(0)

    def at(self, offset: int) -> Location:
        """Where the character at `offset` was written."""
        index = max(bisect_right(self.runs, offset, key=_offset) - 1, 0)
        start, line, column = self.runs[index]
        return Location(self.file, line, column + max(offset - start, 0))

    def cut(self, start: int, end: int) -> Passage:
        """The part from `start` to `end`."""
        end = min(end, len(self.text))
        first = max(bisect_right(self.runs, start, key=_offset) - 1, 0)
        last = max(bisect_left(self.runs, end, key=_offset), first + 1)
        runs: list[Run] = []
        for offset, line, column in self.runs[first:last]:
            if offset < start:
                runs.append((0, line, column + start - offset))
            else:
                runs.append((offset - start, line, column))
        kept = tuple((offset - start, name) for offset, name in self.unknown if start <= offset < end)
        return Passage(self.text[start:end], self.file, tuple(runs), kept)

    def replaced(self, text: str) -> Passage:
        """Other text at the place where this one begins."""
        return Passage(text, self.file, self.runs[:1])

    def marked(self, name: str) -> Passage:
        """The same text, not known as a whole under `name`."""
        return Passage(self.text, self.file, self.runs, ((0, name),))

    def split(self) -> Iterator[Passage]:
        """The words between blanks."""
        start = None
        for offset, character in enumerate(self.text):
            if character.isspace():
                if start is not None:
                    yield self.cut(start, offset)
                start = None
            elif start is None:
                start = offset
        if start is not None:
            yield self.cut(start, len(self.text))


def _offset(run: Run) -> int:
    return run[0]


def join(pieces: Iterable[Passage], separator: str = "") -> Passage:
    """Pieces one behind the other; at least one is needed."""
    texts: list[str] = []
    runs: list[Run] = []
    unknown: list[tuple[int, str]] = []
    length, file = 0, ""
    for piece in pieces:
        if texts and separator:
            texts.append(separator)
            length += len(separator)
        file = file or piece.file
        runs += [(offset + length, line, column) for offset, line, column in piece.runs]
        unknown += [(offset + length, name) for offset, name in piece.unknown]
        texts.append(piece.text)
        length += len(piece.text)
    return Passage("".join(texts), file, tuple(runs), tuple(unknown))


@dataclass(frozen=True)
class Source:
    """A whole file's text. `name` is what locations call it.

    `outer` is the passage that the text is, where it stands inside another file.
    """

    name: str
    text: str
    outer: Passage | None = None

    @cached_property
    def _starts(self) -> list[int]:
        starts, at = [0], self.text.find("\n")
        while at >= 0:
            starts.append(at + 1)
            at = self.text.find("\n", at + 1)
        return starts

    def location(self, offset: int) -> Location:
        """Line and column of the character at `offset`."""
        if self.outer is not None:
            return self.outer.at(offset)
        line = bisect_right(self._starts, offset)
        return Location(self.name, line, offset - self._starts[line - 1] + 1)

    def passage(self, start: int = 0, end: int | None = None) -> Passage:
        """The text from `start` to `end`, as it stands in the file."""
        end = len(self.text) if end is None else end
        if self.outer is not None:
            return self.outer.cut(start, end)
        first = bisect_right(self._starts, start)
        runs = [(0, first, start - self._starts[first - 1] + 1)]
        for line in range(first, len(self._starts)):
            if self._starts[line] >= end:
                break
            runs.append((self._starts[line] - start, line + 1, 1))
        return Passage(self.text[start:end], self.name, tuple(runs))

    def scattered(self, text: str, offsets: Iterable[tuple[int, int]]) -> Passage:
        """`text` made of parts of the file: pairs of an offset in it and the offset in the file it comes from."""
        runs: list[Run] = []
        for inner, outer in offsets:
            place = self.location(outer)
            runs.append((inner, place.line, place.column))
        return Passage(text, self.name, tuple(runs) or ((0, 1, 1),))
