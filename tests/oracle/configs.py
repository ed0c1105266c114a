"""Where the config of a question lies: folders given by hand first, then those of the golden records."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.golden import build
from tests.oracle.errors import OracleError

_NAMED = re.compile(r"\{configs\}/([\w.-]+)")


@dataclass(frozen=True, slots=True)
class Configs:
    """Folders with one folder a config, searched in order."""

    places: tuple[Path, ...]

    def folder(self, name: str) -> Path:
        """The folder of config `name`; raises OracleError where there is none with a config.json."""
        for place in self.places:
            if (place / name / "config.json").is_file():
                return (place / name).resolve()
        raise OracleError(f"no config called {name}: give the folder that it lies in with --configs")

    def contents(self, beginning: str | None = None) -> dict[str, dict[str, Any]]:
        """What the `config.json` files say, by name: of published models, or of the names with a `beginning`."""
        found = {}
        for file in (file for place in self.places for file in place.glob("*/config.json")):
            name = file.parent.name
            if name not in found and (not name.startswith("_") if beginning is None else name.startswith(beginning)):
                found[name] = json.loads(file.read_text("utf-8"))
        return found

    def named(self, flag: str) -> str:
        """`flag` with folders in place of `{configs}/NAME`."""
        return _NAMED.sub(lambda found: str(self.folder(found[1])), flag)

    def unnamed(self, text: str) -> str:
        """`text` with `{configs}` in place of the folders, so that it is the same wherever they lie."""
        for place in self.places:
            text = text.replace(f"{place.resolve()}/", "{configs}/")
        return text


@contextmanager
def opened(given: Sequence[Path]) -> Iterator[Configs]:
    """The folders `given`, and the golden records' own, unpacked for as long as this lasts."""
    with tempfile.TemporaryDirectory() as place:
        build.unpack(Path(place))
        yield Configs((*given, Path(place)))
