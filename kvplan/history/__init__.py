"""The history: every vLLM behaviour that differs between releases, one named entry each.

Entries live beside their subject (`options`, `backends`, `models`, `cache`, `capacity`, …) and are asked for by
name: `release.has(cache.MLA_HONOURS_SKIP_LIST)`. `entries()` lists them all, oldest change first, for
`kvplan releases` and for the docs.
"""

from __future__ import annotations

from importlib import import_module

from kvplan.releases import KNOWN, Behaviour

SUBJECTS = (
    "options",
    "checks",
    "models",
    "backends",
    "cache",
    "packed",
    "blocks",
    "state",
    "compressed",
    "parallel",
    "connectors",
    "speculation",
    "capacity",
)


def entries() -> tuple[Behaviour, ...]:
    """All history entries, ordered by the release in which the change was first seen, then by subject."""
    found: list[Behaviour] = []
    for subject in SUBJECTS:
        module = import_module(f"kvplan.history.{subject}")
        found += [value for value in vars(module).values() if isinstance(value, Behaviour)]
    return tuple(sorted(found, key=_first_change))


def _first_change(entry: Behaviour) -> int:
    """Position among the known releases at which `entry` began, or ended where it had always held."""
    if entry.since is not None:
        return KNOWN.index(entry.since)
    return KNOWN.index(entry.until) + 1 if entry.until is not None else 0
