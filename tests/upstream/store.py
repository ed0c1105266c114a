"""The extracts: what was read of each release, kept as data beside the tests."""

from __future__ import annotations

import json
import lzma
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from tests.upstream.facts import Facts

FOLDER = Path(__file__).parent / "extracts"


def path_of(release: str) -> Path:
    """The file of a release's extract."""
    return FOLDER / f"{release}.json.xz"


@cache
def load(release: str) -> Mapping[str, Facts]:
    """The extract of `release`, by subject. Raises FileNotFoundError where it was never made."""
    extract: Mapping[str, Facts] = json.loads(lzma.decompress(path_of(release).read_bytes()))
    return extract


def dump(extract: Mapping[str, Facts]) -> str:
    """The extract as text: sorted, one fact a line, so that two can be compared line by line."""
    lines = ["{"]
    for at, (subject, facts) in enumerate(sorted(extract.items())):
        inner = ",\n".join(f"  {json.dumps(name)}: {json.dumps(facts[name], sort_keys=True)}" for name in sorted(facts))
        lines.append(f" {json.dumps(subject)}: {{\n{inner}\n }}{',' if at + 1 < len(extract) else ''}")
    return "\n".join((*lines, "}")) + "\n"


def packed(extract: Mapping[str, Facts]) -> bytes:
    """The extract as its file holds it; equal facts give equal bytes."""
    return lzma.compress(dump(extract).encode(), preset=9 | lzma.PRESET_EXTREME)


def save(release: str, extract: Mapping[str, Facts]) -> Path:
    """Writes the extract and forgets what was loaded before."""
    FOLDER.mkdir(exist_ok=True)
    file = path_of(release)
    file.write_bytes(packed(extract))
    load.cache_clear()
    return file
