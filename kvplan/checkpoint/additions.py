"""Models that a project adds to the catalog: names for paths or other models, and directories of configs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from kvplan.checkpoint import catalog
from kvplan.checkpoint.load import is_path
from kvplan.checkpoint.reading import CONFIG_FILE, read_file
from kvplan.errors import InputError


@dataclass(frozen=True, slots=True)
class Own:
    """A model of the project's own."""

    name: str
    reference: str
    """What it stands for: another model, a directory or a file."""
    architecture: str = ""
    """The first one that the config names; empty where the config is not at hand."""
    model_type: str = ""
    problem: str | None = None
    """Why the config cannot be read."""


@dataclass(frozen=True, slots=True)
class Additions:
    """What a project adds. Its own names win over kvplan's catalog."""

    models: Mapping[str, str] = field(default_factory=dict)
    """A name, or a path of a container, and the reference (`kvplan.checkpoint.load.load`) that it stands for."""
    directories: tuple[Path, ...] = ()
    """Directories with `NAME/config.json`, `ORGANISATION/NAME/config.json` or `NAME.json`."""

    @property
    def references(self) -> frozenset[str]:
        """What its names stand for."""
        held = (str(path) for paths in _configs(self.directories).values() for path in paths)
        return frozenset((*self.models.values(), *held))

    def resolve(self, reference: str) -> str:
        """The reference to load for `reference`; itself where nothing was added under that name.

        Raises InputError where several configs of the directories have the name.
        """
        mapped = self.models.get(reference) or self.models.get(reference.rstrip("/"))
        if mapped is not None:
            return mapped
        if not self.directories or not reference.strip() or is_path(reference):
            return reference
        found = _configs(self.directories).get(reference.strip().lower(), ())
        if len(found) > 1:
            listed = ", ".join(str(path) for path in found[:4])
            raise InputError(f"{reference}: several configs of catalog.directories have this name: {listed}")
        return str(found[0]) if found else reference

    def listed(self) -> tuple[Own, ...]:
        """All of them by name, those of the directories behind the others."""
        named = [(name, reference) for name, reference in sorted(self.models.items())]
        held = [(name, str(path)) for directory in self.directories for name, path in _named(directory)]
        return tuple(_described(name, reference) for name, reference in (*named, *held))


def _described(name: str, reference: str) -> Own:
    """A model with what its config says about itself, as far as that is on this machine."""
    path = Path(reference).expanduser()
    if not path.exists():
        entry = None if is_path(reference) else catalog.find(reference)
        return Own(name, reference) if entry is None else Own(name, reference, entry.architecture, entry.model_type)
    try:
        config = read_file(path / CONFIG_FILE if path.is_dir() else path).data
    except InputError as error:
        return Own(name, reference, problem=str(error))
    architectures = config.get("architectures")
    first = architectures[0] if isinstance(architectures, list) and architectures else ""
    return Own(name, reference, str(first), str(config.get("model_type") or ""))


@cache
def _configs(directories: tuple[Path, ...]) -> dict[str, tuple[Path, ...]]:
    """The configs by name, with and without organisation, in small letters."""
    found: dict[str, tuple[Path, ...]] = {}
    for directory in directories:
        for spelled, path in _named(directory):
            name = spelled.lower()
            for key in dict.fromkeys((name, name.rpartition("/")[2])):
                found[key] = (*found.get(key, ()), path)
    return found


def _named(directory: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted(directory.glob("*.json")):
        if path.name != CONFIG_FILE:
            yield path.stem, path
    for pattern in (f"*/{CONFIG_FILE}", f"*/*/{CONFIG_FILE}"):
        for path in sorted(directory.glob(pattern)):
            yield path.parent.relative_to(directory).as_posix(), path.parent
