"""From a settings file to settings: what its texts mean is said by the rooms that they are for."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from kvplan.checkpoint.additions import Additions
from kvplan.errors import InputError
from kvplan.launch.globs import Globs, any_of, fixed
from kvplan.launch.hardware import parse_gpu
from kvplan.launch.sizes import parse_available
from kvplan.releases import resolve
from kvplan.rules import chosen, get
from kvplan.rules.suppression import SettingsEntry
from kvplan.rules.values import Severity
from kvplan.runs.settings.finding import shown, table
from kvplan.runs.settings.refusing import Place, problem, refusal, written
from kvplan.runs.settings.shape import Catalog, SettingsFile, Suppression
from kvplan.runs.settings.values import Settings

Parsed = TypeVar("Parsed")


def read(path: Path) -> Settings:
    """The settings of a file. Raises InputError, naming file, key and fix, for everything that cannot be used."""
    name, document = table(path)
    try:
        found = SettingsFile.model_validate(document)
    except ValidationError as error:
        raise refusal(name, document, error) from None
    return _Reader(name, path.absolute().parent).settings(found)


class _Reader:
    """Reads one file: `file` is its name in messages, `base` the directory that its paths are seen from."""

    def __init__(self, file: str, base: Path) -> None:
        self.file = file
        self.base = base

    def settings(self, found: SettingsFile) -> Settings:
        return Settings(
            file=self.file,
            options=self._options(found),
            severities=self._severities(found.severity),
            additions=self._additions(found.catalog),
            include=self._globs(("scan", "include"), found.scan.include),
            exclude=self._globs(("scan", "exclude"), found.scan.exclude),
            suppressions=tuple(self._entry(number, entry) for number, entry in enumerate(found.suppress)),
        )

    def _meaning(self, place: Place, value: Any, parse: Callable[[Any], Parsed]) -> Parsed:
        """What the reader of an option makes of a value, whose refusal is told of the key."""
        try:
            return parse(value)
        except InputError as error:
            raise problem(self.file, place, str(error).removeprefix(f"--{place[-1]} ")) from None

    def _options(self, found: SettingsFile) -> dict[str, str | tuple[str, ...]]:
        texts: dict[str, tuple[str | None, Callable[[str], object]]] = {
            "vllm-version": (found.vllm_version, resolve),
            "gpu": (found.gpu, parse_gpu),
            "available-kv-memory": (
                found.available_kv_memory,
                lambda text: parse_available(text, "--available-kv-memory"),
            ),
            "fail-on": (found.fail_on, Severity),
        }
        options: dict[str, str | tuple[str, ...]] = {}
        for key, (text, parse) in texts.items():
            if text is not None:
                self._meaning((key,), text, parse)
                options[key.replace("-", "_")] = text
        for key, selectors in (("select", found.select), ("ignore", found.ignore)):
            if selectors is not None:
                self._meaning((key,), selectors, chosen)
                options[key] = tuple(selectors)
        return options

    def _severities(self, found: dict[str, Any]) -> dict[str, Severity]:
        severities: dict[str, Severity] = {}
        # Longer selectors are more exact, so that KV203 wins over KV2.
        for selector in sorted(found, key=len):
            codes = self._meaning(("severity", selector), (selector,), chosen)
            severities |= dict.fromkeys(codes, Severity(found[selector]))
        return severities

    def _additions(self, found: Catalog) -> Additions:
        directories = tuple(self.base / name for name in found.directories)
        for directory in directories:
            if not directory.is_dir():
                raise problem(self.file, ("catalog", "directories"), f"{shown(directory)} is not a directory")
        models: dict[str, str] = {}
        for name, reference in found.models.items():
            if not reference.strip() or reference == "-":
                says = "names no model: give a catalog name, a directory or a config.json"
                raise problem(self.file, ("catalog", "models", name), says)
            models[name.rstrip("/") or name] = self._reference(reference)
        return Additions(models, directories)

    def _reference(self, text: str) -> str:
        """A model reference, with a path seen from the settings file."""
        path = self.base / Path(text).expanduser()
        is_path = text.startswith(("./", "../", ".\\", "..\\", "~")) or path.exists()
        return str(path) if is_path else text

    def _globs(self, place: Place, patterns: Sequence[str] | None) -> Globs | None:
        return None if patterns is None else self._meaning(place, patterns, lambda given: any_of(self.base, given))

    def _entry(self, number: int, entry: Suppression) -> SettingsEntry:
        place = ("suppress", number)
        code = self._meaning((*place, "rule"), entry.rule, get).code
        if not re.search(r"\w", entry.reason):
            says = f'is missing: write reason = "…", why {code} is all right there'
            raise problem(self.file, (*place, "reason"), says)
        path, model = entry.path or "", entry.model or None
        if not path and not model:
            says = f'is missing, and model too: write one of them, or ignore = ["{code}"] for all'
            raise problem(self.file, (*place, "path"), says)
        return SettingsEntry(
            rule=code,
            reason=entry.reason,
            where=f"{self.file}: {written(place)}",
            root=self.base.joinpath(*fixed(path)),
            path=self._globs((*place, "path"), [path]) if path else None,
            model=model,
            expires=entry.expires,
        )
