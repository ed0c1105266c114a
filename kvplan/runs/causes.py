"""Which history entries make a value differ between two releases.

The question is put to the emulation itself: plan as the older release with single entries as they are in the newer
one, and see what becomes of the value. Nothing is read off names or dates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kvplan.history import entries
from kvplan.launch.values import Launch
from kvplan.releases import Behaviour, Release
from kvplan.report.sweepvalues import Cause, Explained, Explanation, Value

Values = Mapping[str, Value]
Measure = Callable[[Launch], Values]
"""What comes of a launch."""

TABLES = Behaviour(
    "TABLES",
    "the release's tables: its options and their defaults and choices, its models, what its backends support",
)
"""Stands for the rows of plain tables, which have spans of releases but are no history entries of their own."""


@dataclass(frozen=True, slots=True)
class MixedRelease(Release):
    """A release in which some behaviours are as in another one. No such release was ever made."""

    flipped: frozenset[str] = frozenset()
    """Names of the entries whose truth is the opposite of that in `acts_as`."""

    def has(self, behaviour: Behaviour) -> bool:
        """Whether `behaviour` holds in this mixture."""
        return Release.has(self, behaviour) != (behaviour.name in self.flipped)


def differing(older: Release, newer: Release) -> tuple[Behaviour, ...]:
    """The entries that hold in one of the two releases only, oldest change first."""
    return tuple(entry for entry in entries() if older.has(entry) != newer.has(entry))


@dataclass(slots=True)
class Explainer:
    """Explains how `older`'s values became `newer`'s: one launch, read by two releases."""

    older: Launch
    newer: Launch
    measure: Measure
    candidates: tuple[Behaviour, ...] = field(init=False)
    _known: dict[frozenset[str], Values | None] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.candidates = (*differing(self.older.release, self.newer.release), TABLES)

    def explain(self, name: str, before: Value, after: Value) -> Explanation:
        """Why the value called `name` changed from `before` to `after`."""

        def becomes(chosen: Sequence[Behaviour]) -> Value | object:
            values = self._mixed(frozenset(entry.name for entry in chosen))
            return _NOTHING if values is None else values[name]

        alone = [entry for entry in self.candidates if becomes([entry]) == after]
        if alone:
            return _explanation(Explained.ALONE, alone)
        moving = [entry for entry in self.candidates if becomes([entry]) not in (before, _NOTHING)]
        for start in (moving, [*(entry for entry in self.candidates if entry not in moving), *moving]):
            if start and becomes(start) == after:
                return _explanation(Explained.TOGETHER, _least(start, lambda chosen: becomes(chosen) == after))
        return _explanation(Explained.PARTLY, moving) if moving else Explanation(Explained.NOT)

    def _mixed(self, chosen: frozenset[str]) -> Values | None:
        """The values with the `chosen` entries as in the newer release, all others as in the older one."""
        if chosen not in self._known:
            self._known[chosen] = self._measured(chosen)
        return self._known[chosen]

    def _measured(self, chosen: frozenset[str]) -> Values | None:
        others = frozenset(entry.name for entry in self.candidates) - chosen
        launch, flipped = (self.newer, others) if TABLES.name in chosen else (self.older, chosen)
        release = launch.release
        mixed = MixedRelease(release.name, release.acts_as, release.beyond_known, flipped - {TABLES.name})
        try:
            return self.measure(replace(launch, release=mixed))
        except Exception:  # Entries that were never apart may contradict each other in any way; that explains nothing.
            return None


_NOTHING = object()


def _explanation(explained: Explained, found: Sequence[Behaviour]) -> Explanation:
    return Explanation(
        explained,
        tuple(
            Cause(entry.name, entry.summary, entry.since, entry.until, entry.reference, entry.where) for entry in found
        ),
    )


def _least(chosen: Sequence[Behaviour], suffices: Callable[[Sequence[Behaviour]], bool]) -> list[Behaviour]:
    """A part of `chosen` that suffices and none of whose members can be left out; halves are tried first."""
    kept = list(chosen)
    size = max(1, len(kept) // 2)
    while True:
        at, shrunk = 0, False
        while at < len(kept):
            rest = kept[:at] + kept[at + size :]
            if rest and suffices(rest):
                kept, shrunk = rest, True
            else:
                at += size
        if size == 1 and not shrunk:
            return kept
        size = max(1, size // 2)
