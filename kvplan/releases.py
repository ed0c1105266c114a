"""The vLLM releases kvplan knows, and how any other version is placed among them.

Rooms never compare version numbers: they ask a release whether a named behaviour of `kvplan.history` holds.
Adding a release is one line in `KNOWN` and the history entries that begin or end with it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from kvplan.errors import InputError

KNOWN: tuple[str, ...] = (
    "0.16.0",
    "0.17.1",
    "0.18.1",
    "0.19.1",
    "0.20.2",
    "0.21.0",
    "0.22.1",
    "0.23.0",
    "0.24.0",
    "0.25.1",
    "0.26.0",
    "0.27.1",
    "0.28.0",
    "0.29.0",
    "0.30.0",
    "0.31.0",
    "0.32.0",
    "0.33.0",
)
"""One release a minor version, oldest first: those whose sources were read and run."""

NEWEST = KNOWN[-1]

_ORDER = {name: position for position, name in enumerate(KNOWN)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """The known releases for which something holds: from `since` to `until`, both inclusive and members of `KNOWN`.

    None means "from the oldest known" and "to the newest known". Every dated table of kvplan has its rows' dates in
    this form. Raises ValueError where a bound is no known release, or where the span would end before it begins.
    """

    since: str | None = None
    until: str | None = None

    def __post_init__(self) -> None:
        for bound in (self.since, self.until):
            if bound is not None and bound not in _ORDER:
                raise ValueError(f"{self}: {bound} is not a known release")
        if self.since is not None and self.until is not None and _ORDER[self.since] > _ORDER[self.until]:
            raise ValueError(f"{self}: ends before it begins")

    def covers(self, known: str) -> bool:
        """Whether the member `known` of `KNOWN` lies within."""
        here = _ORDER[known]
        if self.since is not None and here < _ORDER[self.since]:
            return False
        return self.until is None or here <= _ORDER[self.until]


ALWAYS = Span()
"""From the oldest known release to the newest."""


@dataclass(frozen=True, slots=True)
class Behaviour(Span):
    """Something vLLM does in the releases of its span and not in others.

    `reference` is the PR or issue (`vllm#12345`) where it is known, `summary` one line for people, `where` the
    source file that shows it.
    """

    name: str
    summary: str
    reference: str | None = None
    where: str | None = None


@dataclass(frozen=True, slots=True)
class Release:
    """A vLLM release as asked for (`name`) and the known one it is taken to behave like (`acts_as`)."""

    name: str
    acts_as: str
    beyond_known: bool = False

    def has(self, behaviour: Behaviour) -> bool:
        """Whether `behaviour` holds in this release."""
        return behaviour.covers(self.acts_as)

    def within(self, span: Span) -> bool:
        """Whether this release lies in a table row's span."""
        return span.covers(self.acts_as)

    def __str__(self) -> str:
        return self.name


_BY_MINOR = {tuple(map(int, name.split(".")[:2])): name for name in KNOWN}
_VERSION = re.compile(r"v?(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?(?:\.?(?:post|rc|dev)\d*)?(?:\+[\w.]+)?", re.ASCII)


@cache
def resolve(text: str) -> Release:
    """The release meant by `text` (`0.33.0`, `v0.25.1`, `0.26`, `latest`).

    Raises InputError when it is not a version or older than the oldest known release.
    """
    wanted = text.strip()
    if wanted.lower() in {"latest", "newest"}:
        return Release(NEWEST, NEWEST)
    match = _VERSION.fullmatch(wanted)
    if match is None:
        raise InputError(f"--vllm-version {text!r} is not a vLLM version: give one like {NEWEST}, or 'latest'")
    minor = (int(match[1]), int(match[2]))
    if minor < min(_BY_MINOR):
        raise InputError(f"--vllm-version {wanted}: releases before {KNOWN[0]} are not emulated")
    name = f"{minor[0]}.{minor[1]}.{match[3]}" if match[3] else _BY_MINOR.get(minor, f"{minor[0]}.{minor[1]}.0")
    if minor > max(_BY_MINOR):
        return Release(name, NEWEST, beyond_known=True)
    if minor not in _BY_MINOR:
        raise InputError(f"--vllm-version {wanted}: there is no such vLLM release; known: {', '.join(KNOWN)}")
    return Release(name, _BY_MINOR[minor])
