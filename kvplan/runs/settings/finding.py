"""Where the settings stand: the file that holds in a directory, and its table."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kvplan.errors import InputError
from kvplan.files import read_bytes

NAMES = (".kvplan.toml", "kvplan.toml", "pyproject.toml")
"""In a directory with several, the first that speaks of kvplan holds."""

MAX_BYTES = 4_000_000
"""More of a settings file is not read."""

_PYPROJECT = NAMES[2]


def find(start: Path) -> Path | None:
    """The settings file that holds in `start`: that of the nearest directory upwards which has one."""
    here = start.absolute()
    for directory in (here, *here.parents):
        for name in NAMES:
            path = directory / name
            if path.is_file() and (name != _PYPROJECT or _speaks(path)):
                return path
    return None


def table(path: Path) -> tuple[str, Mapping[str, Any]]:
    """What messages call the settings of a file, and what they hold. Raises InputError where it is no TOML."""
    name = shown(path)
    try:
        raw = read_bytes(path, MAX_BYTES)
    except OSError as error:
        raise InputError(f"{name}: cannot be read: {(error.strerror or str(error)).lower()}") from None
    document = _parsed(path, raw)
    if path.name != _PYPROJECT:
        return name, document
    return f"{name} [tool.kvplan]", _tools(document).get("kvplan", {})


def shown(path: Path) -> str:
    """The path from here, where that is shorter than the whole."""
    try:
        short = os.path.relpath(path)
    except ValueError:  # another drive
        return str(path)
    return min(short, str(path), key=len)


def _speaks(path: Path) -> bool:
    """Whether a pyproject.toml has a table for kvplan."""
    try:
        raw = read_bytes(path, MAX_BYTES)
    except OSError:
        return False
    return b"kvplan" in raw and "kvplan" in _tools(_parsed(path, raw))


def _tools(document: Mapping[str, Any]) -> Mapping[str, Any]:
    tools = document.get("tool")
    return tools if isinstance(tools, dict) else {}


def _parsed(path: Path, raw: bytes) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(raw.decode("utf-8-sig").replace("\r\n", "\n"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{shown(path)}: is not TOML: {error}") from None
    except RecursionError:
        raise InputError(f"{shown(path)}: is nested too deeply to be read") from None
