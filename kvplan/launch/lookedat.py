"""The options that kvplan does not look at: which of them leave the cache as it is, and which may not.

`data/looked_at.json` has every option of every known release that nothing in kvplan reads: `harmless` by the reason
why it leaves the cache, its layers and the start of the engine as they are; `declared` by what vLLM does with it that
kvplan does not follow; `values` of declared options that change nothing; `fields` of config objects alike. A test holds
the file against the options of all releases.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from kvplan.launch.locations import Location
from kvplan.launch.values import Launch


@dataclass(frozen=True, slots=True)
class NotLookedAt:
    """An option of a launch that kvplan does not look at."""

    option: str
    """As a long flag, a field of a config object behind a dot."""
    why: str
    """What vLLM does with it."""
    location: Location | None = None


def not_looked_at(launch: Launch) -> tuple[NotLookedAt, ...]:
    """Those that `launch` gives a value that could change something."""
    return tuple(_found(launch))


def is_harmless(name: str) -> bool:
    """Whether the option (vLLM's field name) leaves the cache and the start of the engine as they are."""
    return name in _reasons("harmless")


def is_declared(name: str) -> bool:
    """Whether vLLM does something with the option that kvplan does not follow."""
    return name in _reasons("declared")


def _found(launch: Launch) -> Iterator[NotLookedAt]:
    declared, fields, fine = _reasons("declared"), _table()["fields"], _table()["values"]
    for name, setting in launch.settings.items():
        flag = "--" + name.replace("_", "-")
        if name in fields and isinstance(setting.value, Mapping):
            for field, value in setting.value.items():
                if field in fields[name]["declared"] and _says(value):
                    yield NotLookedAt(f"{flag}.{field}", "it changes how layers are built or run", setting.location)
        elif name in declared and _says(setting.value) and setting.value not in fine.get(name, ()):
            yield NotLookedAt(flag, declared[name], setting.location)


def _says(value: Any) -> bool:
    """Whether a value asks for anything: nothing, off, zero and `auto` are what options are without one."""
    return value not in (None, False, 0, "", "auto", "none") and value not in ([], {})


@cache
def _reasons(part: str) -> Mapping[str, str]:
    """The options of one part of the file, each with its reason."""
    return {name: reason for reason, names in _table()[part].items() for name in names}


@cache
def _table() -> Mapping[str, Any]:
    table: Mapping[str, Any] = json.loads((Path(__file__).parent / "data" / "looked_at.json").read_text("utf-8"))
    return table


def listed() -> frozenset[str]:
    """Every option that the file names."""
    return frozenset(_reasons("harmless")) | frozenset(_reasons("declared"))


def fields_listed(name: str) -> frozenset[str]:
    """Every field of one config object that the file names."""
    fields = _table()["fields"].get(name, {})
    return frozenset(field for names in fields.values() for field in names)
