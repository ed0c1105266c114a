"""Patterns for paths: `deploy/**/*.yaml`, `archive/`, `*.tpl`, read as those of a `.gitignore`.

They are matched name by name rather than by one regular expression, whose time would grow with every `**` and `*`.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from pathlib import Path, PurePath

from kvplan.errors import InputError


@dataclass(frozen=True, slots=True)
class Globs:
    """Patterns for paths below `base`, which is absolute.

    `*` and `?` stay within one name, `**` is any number of directories. A pattern that names a directory means
    everything below it; one without a slash means every file or directory of that name, however deep.

    Other than in a `.gitignore`, `\\` is a slash, `!` and `#` at the beginning are plain letters, blanks at the end
    count, a `[` that is closed by nothing stands for itself, `**` may stand beside other letters of a name
    (`deploy/**.yaml`), and a pattern that begins with a slash is a whole path, for files that are not below `base`.
    """

    base: Path
    patterns: tuple[str, ...] = ()

    def match(self, file: str) -> bool:
        """Whether one of the patterns means `file`, a path as the reports write it (from the current directory)."""
        path = absolute(file)
        inside = path.is_relative_to(self.base)
        text = (path.relative_to(self.base) if inside else path).as_posix().removeprefix("/")
        return any(_compiled(pattern).match(text, inside=inside) for pattern in self.patterns)


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
        except (re.error, ValueError) as error:
            raise InputError(f"{pattern[:80]!r} is not a pattern for paths: {error}") from None
    return Globs(absolute(base), tuple(patterns))


def fixed(pattern: str) -> tuple[str, ...]:
    """The names at the beginning of a pattern below which all lies that it can mean: `deploy` of `deploy/*/x.yaml`;
    none for a pattern that means files wherever they are."""
    wanted = _written(pattern)
    if _anywhere(wanted):
        return ()
    return tuple(takewhile(lambda name: not re.search(r"[*?\[]", name), wanted.rstrip("/").split("/")))


def _written(pattern: str) -> str:
    wanted = pattern.replace("\\", "/").removeprefix("./")
    return f"{wanted.rstrip('/')}/" if wanted.endswith("/") else wanted


def _anywhere(wanted: str) -> bool:
    """Whether a pattern means a name wherever it stands."""
    return "/" not in wanted.rstrip("/")


Token = str | re.Pattern[str]
"""A part of a name's pattern: `*`, a letter (`?` stands for any), or a class of letters."""

_MANY = "*"
_ACROSS = "**"


@dataclass(frozen=True, slots=True)
class _Path:
    """One alternative of a pattern: the patterns of its names, `**` among them (as None)."""

    names: tuple[tuple[Token, ...] | None, ...]
    folder: bool
    """Whether only folders are meant, and so only what is below them."""

    def match(self, path: Sequence[str]) -> bool:
        """Whether it means a path or a folder above it, in time in proportion to both lengths."""
        states = self._closed({0})
        for number, name in enumerate(path, 1):
            reached: set[int] = set()
            for at in states:
                if at == len(self.names):
                    continue
                pattern = self.names[at]
                if pattern is None:
                    reached.add(at)
                    if at == len(self.names) - 1:
                        reached.add(at + 1)
                elif _name_matches(pattern, name):
                    reached.add(at + 1)
            states = self._closed(reached)
            if len(self.names) in states and (number < len(path) or not self.folder):
                return True
        return False

    def _closed(self, states: set[int]) -> set[int]:
        """With those behind every `**` that may mean no folder at all; the last one means at least one name."""
        found = set(states)
        for at in range(len(self.names) - 1):
            if at in found and self.names[at] is None:
                found.add(at + 1)
        return found


def _name_matches(pattern: tuple[Token, ...], name: str) -> bool:
    """Whether a name is meant. Only the latest `*` is ever gone back to, so that many of them cost no more."""
    at = place = 0
    star, kept = -1, 0
    while place < len(name):
        if at < len(pattern) and pattern[at] != _MANY and _letter_matches(pattern[at], name[place]):
            at, place = at + 1, place + 1
        elif at < len(pattern) and pattern[at] == _MANY:
            star, kept = at, place
            at += 1
        elif star >= 0:
            kept += 1
            at, place = star + 1, kept
        else:
            return False
    return all(token == _MANY for token in pattern[at:])


def _letter_matches(token: Token, letter: str) -> bool:
    if isinstance(token, str):
        return token in (letter, _ANY)
    return token.fullmatch(letter) is not None


_ANY = "?"


@dataclass(frozen=True, slots=True)
class _Pattern:
    """One pattern, read."""

    inside: bool
    """Whether it can mean files below the base."""
    outside: bool
    """Whether it can mean others."""
    alternatives: tuple[_Path, ...]

    def match(self, path: str, *, inside: bool) -> bool:
        """Whether it means a path without a slash at its beginning."""
        if not (self.inside if inside else self.outside):
            return False
        names = path.split("/")
        return any(one.match(names) for one in self.alternatives)


@cache
def _compiled(pattern: str) -> _Pattern:
    wanted = _written(pattern)
    whole = PurePath(wanted).is_absolute()
    alternatives = tuple(_path(one) for one in _alternatives(wanted))
    return _Pattern(not whole, whole or _anywhere(wanted) or wanted.startswith("**"), alternatives)


def _path(wanted: str) -> _Path:
    """One alternative, read. Raises re.error for a class of letters that is none."""
    names = wanted.strip("/").split("/")
    if _anywhere(wanted):
        names.insert(0, _ACROSS)
    # `a/**/` means all below `a`, as `a/**` does.
    folder = wanted.endswith("/") and (names[-1] != _ACROSS or set(names) == {_ACROSS})
    return _Path(tuple(None if name == _ACROSS else _tokens(name) for name in names), folder)


def _tokens(name: str) -> tuple[Token, ...]:
    found: list[Token] = []
    at = 0
    while at < len(name):
        part = _CLASS.match(name, at)
        if part is None:
            # Beside each other they mean no more than one.
            if not (name[at] == _MANY and found and found[-1] == _MANY):
                found.append(name[at])
            at += 1
            continue
        found.append(_class(part))
        at = part.end()
    return tuple(found)


def _class(part: re.Match[str]) -> Token:
    if part[1]:
        return part[1]
    if len(part[0]) == 1:
        return part[0]
    inner = part[0][1:-1]
    negated = inner[0] in "!^"
    letters = (inner[1:] if negated else inner).replace("\\", r"\\").replace("[", r"\[").replace("^", r"\^")
    with warnings.catch_warnings():
        # A class such as `[a--b]` may mean something else in some future Python; here it does not.
        warnings.simplefilter("ignore", FutureWarning)
        return re.compile(f"[{'^' if negated else ''}{letters}]", re.DOTALL)


def _alternatives(wanted: str) -> tuple[str, ...]:
    """Patterns in which `**` stands alone in its segment, as `.gitignore` wants it, that together mean the same:
    `a/b*c` and `a/b*/**/*c` for `a/b**c`."""
    names = re.sub(r"\*{3,}", "**", wanted).split("/")
    if not any("**" in name and name != "**" for name in names):
        return ("/".join(names),)
    within, across = (
        "/".join(name if name == "**" else name.replace("**", instead) for name in names) for instead in ("*", "*/**/*")
    )
    return within, f"**/{across}" if _anywhere(wanted) else across


_CLASS = re.compile(r"\[(?![!^]\])[^\]/]+\]|\[([!^])\]|\[")
"""A class of letters; one that holds but a letter that negates others; a bracket that begins none."""
