"""Patterns for paths: `deploy/**/*.yaml`, `archive/`, `*.tpl`. pathspec reads them, as it reads a `.gitignore`."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from kvplan.errors import InputError

if TYPE_CHECKING:
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern


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


@dataclass(frozen=True, slots=True)
class _Pattern:
    """One pattern, compiled."""

    inside: bool
    """Whether it can mean files below the base."""
    outside: bool
    """Whether it can mean others."""
    alternatives: tuple[GitIgnoreSpecPattern, ...]

    def match(self, path: str, *, inside: bool) -> bool:
        """Whether it means a path without a slash at its beginning."""
        if not (self.inside if inside else self.outside):
            return False
        return any(one.regex is not None and one.match_file(path) is not None for one in self.alternatives)


@cache
def _compiled(pattern: str) -> _Pattern:
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

    wanted = _written(pattern)
    whole = PurePath(wanted).is_absolute()
    with warnings.catch_warnings():
        # A class such as `[[]` may mean something else in some future Python; here it does not.
        warnings.simplefilter("ignore", FutureWarning)
        alternatives = tuple(GitIgnoreSpecPattern(_escaped(one)) for one in _alternatives(wanted))
    return _Pattern(not whole, whole or _anywhere(wanted) or wanted.startswith("**"), alternatives)


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


def _escaped(wanted: str) -> str:
    """The pattern, with escapes where `.gitignore` would read something else into it."""
    text = _CLASS.sub(lambda found: f"\\{found[1] or '['}" if len(found[0]) == 1 or found[1] else found[0], wanted)
    if text.startswith(("!", "#")):
        text = f"\\{text}"
    return text if text == text.rstrip() else f"{text[:-1]}[{text[-1]}]"
