"""Reading all subjects of a release, and telling what is new in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tests.upstream import departures
from tests.upstream.facts import ABSENT, Difference, Facts, Subject, agree, differences
from tests.upstream.sources import Moved, Sources
from tests.upstream.subjects import SUBJECTS


def read(sources: Sources, only: str | None = None) -> tuple[dict[str, Facts], list[tuple[str, Moved]]]:
    """The facts by subject (or of one), and the subjects that could not be read, with what their readers must learn."""
    found: dict[str, Facts] = {}
    moved: list[tuple[str, Moved]] = []
    for subject in SUBJECTS:
        if only not in (None, subject.name):
            continue
        try:
            found[subject.name] = subject.read(sources)
        except Moved as problem:
            moved.append((subject.name, problem))
    return found, moved


def news(old: Mapping[str, Facts], new: Mapping[str, Facts], before: str, release: str) -> Iterator[str]:
    """Lines for people: table by table what was added (as the table's rows), removed and changed."""
    for subject in SUBJECTS:
        if subject.name not in old or subject.name not in new:
            continue
        found = [
            one
            for one in differences(subject.name, *(_gist(subject, side[subject.name]) for side in (old, new)))
            if not _left_out(one, before, release)
        ]
        if not found:
            continue
        yield f"{subject.name} ({subject.table})"
        for one in found:
            if one.left is ABSENT:
                yield f"  + {subject.row(one.name, one.right, release)}"
            elif one.right is ABSENT:
                yield f'  - {one.name}: until="{before}"'
            else:
                yield f"  ~ {one.name}: {_change(one.left, one.right)}"
                yield f"    {subject.row(one.name, one.right, release)}"


def _gist(subject: Subject, facts: Facts) -> Facts:
    return {name: subject.gist(value) for name, value in facts.items()}


def _left_out(one: Difference, before: str, release: str) -> bool:
    """Whether a name came or went that kvplan leaves out on purpose."""
    if one.left is not ABSENT and one.right is not ABSENT:
        return False
    side, where = (one.right, release) if one.left is ABSENT else (one.left, before)
    return departures.intended(Difference(one.subject, one.name, ABSENT, side), where) is not None


def _change(old: Any, new: Any) -> str:
    """What changed: of objects the keys that differ, of lists what came and went."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        keys = [key for key in sorted(old.keys() | new.keys()) if not agree(old.get(key), new.get(key))]
        return ", ".join(f"{key} {_change(old.get(key), new.get(key))}" for key in keys)
    if isinstance(old, list) and isinstance(new, list):
        words = [f"+{one}" for one in new if one not in old] + [f"-{one}" for one in old if one not in new]
        if words:
            return " ".join(words)
    return f"{old} becomes {new}"
