"""A project's settings: `.kvplan.toml`, `kvplan.toml`, or `[tool.kvplan]` of `pyproject.toml`.

They stand in the command line's room because they hold what its options hold: what they say is checked by the rooms
that the options go to, down to the rules, and no other room reads them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from kvplan.checkpoint.additions import Additions
from kvplan.errors import InputError
from kvplan.launch.globs import Globs, any_of, fixed
from kvplan.rules.suppression import Entry
from kvplan.rules.values import Severity
from kvplan.runs.tables import Table

NAMES = (".kvplan.toml", "kvplan.toml", "pyproject.toml")
"""In a directory with several, the first that speaks of kvplan holds."""

_PYPROJECT = NAMES[2]
_KEYS = (
    *("vllm-version", "gpu", "available-kv-memory", "select", "ignore", "fail-on"),
    *("severity", "catalog", "scan", "suppress"),
)
_MEANT = {"release": "vllm-version", "version": "vllm-version", "memory": "available-kv-memory", "models": "catalog"}
"""Keys that somebody may expect, and what they are called."""

_SEVERITIES = tuple(str(severity) for severity in Severity)

Parsed = TypeVar("Parsed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a settings file says; None and empty where it says nothing."""

    file: str | None = None
    """The file as messages call it; None where there is none."""
    options: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict)
    """Values of options, as the command line would give them, by the option's name with underscores."""
    severities: Mapping[str, Severity] = field(default_factory=dict)
    """By rule code."""
    additions: Additions = field(default_factory=Additions)
    include: Globs | None = None
    """The only files of directories that are scanned."""
    exclude: Globs | None = None
    """Files that are never scanned."""
    suppressions: tuple[Entry, ...] = ()


def find(start: Path) -> Path | None:
    """The settings file that holds in `start`: that of the nearest directory upwards which has one."""
    here = start.absolute()
    for directory in (here, *here.parents):
        for name in NAMES:
            path = directory / name
            if path.is_file() and (name != _PYPROJECT or _speaks(path)):
                return path
    return None


def _speaks(path: Path) -> bool:
    """Whether a pyproject.toml has a table for kvplan."""
    try:
        raw = path.read_bytes()
    except OSError:
        return False
    return b"kvplan" in raw and "kvplan" in _tools(_parsed(path, raw))


def _tools(document: Mapping[str, Any]) -> Mapping[str, Any]:
    tools = document.get("tool")
    return tools if isinstance(tools, dict) else {}


def read(path: Path) -> Settings:
    """The settings of a file. Raises InputError, naming file, key and fix, for everything that cannot be used."""
    shown = _shown(path)
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise InputError(f"{shown}: cannot be read: {(error.strerror or str(error)).lower()}") from None
    document = _parsed(path, raw)
    if path.name == _PYPROJECT:
        document = _tools(document).get("kvplan", {})
        shown = f"{shown} [tool.kvplan]"
    return _settings(Table(shown, document), path.absolute().parent)


def _parsed(path: Path, raw: bytes) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(raw.decode("utf-8-sig").replace("\r\n", "\n"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{_shown(path)}: is not TOML: {error}") from None
    except RecursionError:
        raise InputError(f"{_shown(path)}: is nested too deeply to be read") from None


def _shown(path: Path) -> str:
    """The path from here, where that is shorter than the whole."""
    try:
        short = os.path.relpath(path)
    except ValueError:  # another drive
        return str(path)
    return min(short, str(path), key=len)


def _settings(table: Table, base: Path) -> Settings:
    table.only(_KEYS, _MEANT)
    scan = table.table("scan")
    scan.only(("include", "exclude"))
    return Settings(
        file=table.file,
        options=_options(table),
        severities=_severities(table.table("severity")),
        additions=_additions(table.table("catalog"), base),
        include=_globs(scan, "include", base),
        exclude=_globs(scan, "exclude", base),
        suppressions=tuple(_entry(entry, base) for entry in table.tables("suppress")),
    )


def _entry(table: Table, base: Path) -> Entry:
    from kvplan.rules import get

    table.only(("rule", "path", "model", "reason", "expires"))
    rule, reason = table.text("rule", "KV203"), table.text("reason", "why this is all right")
    if rule is None:
        raise table.problem("rule", 'is missing: write rule = "KV203"')
    try:
        code = get(rule).code
    except InputError as error:
        raise table.problem("rule", str(error)) from None
    if reason is None or not re.search(r"\w", reason):
        raise table.problem("reason", f'is missing: write reason = "…", why {code} is all right there')
    path, model = table.text("path", "deploy/*.yaml"), table.text("model", "zai-org/GLM-*")
    if not path and not model:
        raise table.problem("path", f'is missing, and model too: write one of them, or ignore = ["{code}"] for all')
    try:
        globs = any_of(base, [path]) if path else None
    except InputError as error:
        raise table.problem("path", str(error)) from None
    where = f"{table.file}: {table.where.rstrip('.')}"
    return Entry(
        rule=code,
        reason=reason,
        where=where,
        root=base.joinpath(*fixed(path or "")),
        path=globs,
        model=model or None,
        expires=table.day("expires"),
    )


def _globs(table: Table, key: str, base: Path) -> Globs | None:
    patterns = table.texts(key)
    try:
        return None if patterns is None else any_of(base, patterns)
    except InputError as error:
        raise table.problem(key, str(error)) from None


def _options(table: Table) -> dict[str, str | tuple[str, ...]]:
    from kvplan.launch.hardware import parse_gpu
    from kvplan.launch.sizes import parse_size
    from kvplan.releases import resolve
    from kvplan.rules import chosen

    memory = table.size("available-kv-memory")
    texts: dict[str, str | None] = {
        "vllm-version": _checked(table, "vllm-version", table.text("vllm-version", "0.26.0"), resolve),
        "gpu": _checked(table, "gpu", table.text("gpu", "h200:8"), parse_gpu),
        "available-kv-memory": _checked(
            table, "available-kv-memory", memory, lambda text: parse_size(text, "--available-kv-memory")
        ),
        "fail-on": table.choice("fail-on", _SEVERITIES),
    }
    found: dict[str, str | tuple[str, ...]] = {
        key.replace("-", "_"): text for key, text in texts.items() if text is not None
    }
    for key in ("select", "ignore"):
        selectors = table.texts(key)
        if selectors is not None:
            _checked(table, key, selectors, chosen)
            found[key] = selectors
    return found


def _checked(table: Table, key: str, value: Parsed, parse: Callable[[Any], object]) -> Parsed:
    """The value, which the reader of the option of this name takes."""
    if value is not None:
        try:
            parse(value)
        except InputError as error:
            raise table.problem(key, str(error).removeprefix(f"--{key} ")) from None
    return value


def _severities(table: Table) -> dict[str, Severity]:
    from kvplan.rules import chosen

    found: dict[str, Severity] = {}
    # Longer selectors are more exact, so that KV203 wins over KV2.
    for selector in sorted(table.data, key=len):
        severity = Severity(table.choice(selector, _SEVERITIES) or "")
        try:
            codes = chosen((selector,))
        except InputError as error:
            raise table.problem(selector, str(error)) from None
        found |= dict.fromkeys(codes, severity)
    return found


def _additions(table: Table, base: Path) -> Additions:
    table.only(("directories", "models"))
    directories = tuple(base / name for name in table.texts("directories") or ())
    for directory in directories:
        if not directory.is_dir():
            raise table.problem("directories", f"{_shown(directory)} is not a directory")
    named = table.table("models")
    models: dict[str, str] = {}
    for name in named.data:
        reference = named.text(name, "zai-org/GLM-5.2-FP8") or ""
        if not reference.strip() or reference == "-":
            raise named.problem(name, "names no model: give a catalog name, a directory or a config.json")
        models[name.rstrip("/") or name] = _reference(reference, base)
    return Additions(models, directories)


def _reference(text: str, base: Path) -> str:
    """A model reference, with a path seen from the settings file."""
    path = base / Path(text).expanduser()
    is_path = text.startswith(("./", "../", ".\\", "..\\", "~")) or path.exists()
    return str(path) if is_path else text
