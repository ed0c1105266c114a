"""Patterns for paths: `deploy/**/*.yaml`, `archive/`, `*.tpl`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from pathlib import Path

from kvplan.errors import InputError


@dataclass(frozen=True, slots=True)
class Globs:
    """Patterns for paths below `base`, which is absolute.

    `*` and `?` stay within one name, `**` is any number of directories. A pattern that names a directory means
    everything below it; one without a slash means every file or directory of that name, however deep.
    """

    base: Path
    patterns: tuple[str, ...] = ()

    def match(self, file: str) -> bool:
        """Whether one of the patterns means `file`, a path as the reports write it (from the current directory)."""
        path = relative(file, self.base)
        return any(_compiled(pattern).fullmatch(path) is not None for pattern in self.patterns)


def absolute(file: str | Path) -> Path:
    """The whole path of `file`, without `..` and without looking at links."""
    parts: list[str] = []
    for part in Path(file).absolute().parts:
        if part == ".." and len(parts) > 1:
            parts.pop()
        else:
            parts.append(part)
    return Path(*parts)


def relative(file: str, base: Path) -> str:
    """`file` as seen from `base`, with slashes; the whole path where it is not below it."""
    path = absolute(file)
    return path.relative_to(base).as_posix() if path.is_relative_to(base) else path.as_posix()


def any_of(base: Path, patterns: Sequence[str]) -> Globs:
    """The patterns, seen from `base`. Raises InputError for one that is none."""
    for pattern in patterns:
        try:
            _compiled(pattern)
        except re.error as error:
            raise InputError(f"{pattern[:80]!r} is not a pattern for paths: {error}") from None
    return Globs(absolute(base), tuple(patterns))


def fixed(pattern: str) -> tuple[str, ...]:
    """The names at the beginning of a pattern below which all lies that it can mean: `deploy` of `deploy/*/x.yaml`;
    none for a pattern that means files wherever they are."""
    wanted = pattern.replace("\\", "/").removeprefix("./")
    if "/" not in wanted.rstrip("/"):
        return ()
    return tuple(takewhile(lambda name: not re.search(r"[*?\[]", name), wanted.rstrip("/").split("/")))


_PIECES = re.compile(r"\*\*/|\*\*|\*|\?|\[[^\]/]+\]|[^*?\[]+|\[")


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    wanted = pattern.replace("\\", "/").removeprefix("./")
    anywhere = "/" not in wanted.rstrip("/")
    below = r"(?:/.*)?" if not wanted.endswith("/") else r"/.*"
    body = "".join(_piece(piece) for piece in _PIECES.findall(wanted.rstrip("/")))
    return re.compile(f"{'(?:.*/)?' if anywhere else ''}{body}{below}", re.DOTALL)


def _piece(piece: str) -> str:
    special = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}.get(piece)
    if special is not None:
        return special
    if len(piece) > 2 and piece[0] == "[" and piece[-1] == "]":
        inner = piece[1:-1]
        negated = inner[0] in "!^" and len(inner) > 1
        members = re.escape(inner[1:] if negated else inner).replace("\\-", "-")
        return f"[{'^' if negated else ''}{members}]"
    return re.escape(piece)
