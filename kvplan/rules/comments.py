"""Comments that suppress findings: `# kvplan: ignore[KV203] the pilot runs unquantised on purpose`.

They are looked for line by line, whatever the language of the file is: a manifest holds scripts, and a document
holds both.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kvplan.errors import InputError
from kvplan.launch.locations import Location
from kvplan.rules.running import get
from kvplan.rules.suppression import Comment

_COMMENT = re.compile(
    r"(?P<sign>\#|//|;|<!--|/\*|\{\#)\s*kvplan\s*:\s*ignore\b\s*(?P<rules>\[[^\]\n]*\]?)?(?P<reason>[^\n]*)",
    re.IGNORECASE,
)
_ENDS = ("-->", "-}}", "}}", "*/", "#}")
"""What closes a comment behind its reason, outermost first."""
_ONLY_COMMENT = re.compile(r"\s*(?:\#|//|;|<!--|/\*|\{\#|\{\{-?\s*/\*)")
_OPENS = re.compile(r"(?::(?:\s+[|>][-+0-9]*)?|\[|\(|\{)\s*$")
"""How a line ends whose value begins on the next one."""
_MOST_LINES = 20
"""Lines that one comment is about at most: no value is handed on further."""


@dataclass(frozen=True, slots=True)
class Unusable:
    """A comment that suppresses nothing, and why."""

    place: Location
    reason: str


def comments(file: str, text: str) -> tuple[tuple[Comment, ...], tuple[Unusable, ...]]:
    """The comments of a file, and those that cannot be used.

    A comment is about its own line or, where it stands alone, about the next line that is none. A line that only
    opens a value (`args:`, `command: |`) hands it on to the next.
    """
    usable: list[Comment] = []
    unusable: list[Unusable] = []
    if "kvplan" not in text.lower():
        return (), ()
    lines = text.split("\n")
    following = _next_code(lines)
    for number, line in enumerate(lines, 1):
        match = _COMMENT.search(line)
        if match is None:
            continue
        place = Location(file, number, match.start() + 1)
        try:
            codes, reason = _parsed(match)
        except InputError as error:
            unusable.append(Unusable(place, str(error)))
        else:
            usable.append(Comment(place, _about(lines, following, number), codes, reason))
    return tuple(usable), tuple(unusable)


def _parsed(match: re.Match[str]) -> tuple[frozenset[str], str]:
    """Codes and reason. Raises InputError for a comment without either, and for a rule that is none."""
    rules = [name for name in re.split(r"[\s,]+", (match["rules"] or "").strip("[]")) if name]
    if not rules:
        raise InputError("it names no rule")
    codes = frozenset(get(name).code for name in rules)
    reason = _unclosed(match["reason"]).strip(" \t:-–—")
    if not re.search(r"\w", reason):
        raise InputError("it gives no reason")
    return codes, reason


def _unclosed(reason: str) -> str:
    """The reason without what closes the comment."""
    for end in _ENDS:
        if end == "}}" and not reason.rstrip().endswith(("*/}}", "*/ }}")):
            continue
        reason = reason.rstrip().removesuffix(end)
    return reason


def _next_code(lines: list[str]) -> list[int]:
    """For each line, the number of the first one behind it that is neither a comment nor empty."""
    following = [len(lines) + 1] * (len(lines) + 1)
    for number in range(len(lines) - 1, -1, -1):
        line = lines[number]
        silent = not line.strip() or _ONLY_COMMENT.match(line) is not None
        following[number] = following[number + 1] if silent else number + 1
    return following


def _about(lines: list[str], following: list[int], number: int) -> frozenset[int]:
    """The lines that a comment on line `number` is about."""
    about = {number}
    at = number
    if _ONLY_COMMENT.match(lines[number - 1]):
        at = following[number]
        about.add(at)
    while at < len(lines) and len(about) < _MOST_LINES and _OPENS.search(_code(lines[at - 1])):
        at += 1
        about.add(at)
    return frozenset(about)


def _code(line: str) -> str:
    """A line without the comment that suppresses."""
    match = _COMMENT.search(line)
    return line if match is None else line[: match.start()]
