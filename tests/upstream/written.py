"""A small vllm package written for a test."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path

from tests.upstream.sources import Sources


def written(folder: Path, files: Mapping[str, str], release: str = "0.33.0") -> Sources:
    """The package with `files`, by path below it, dedented."""
    for path, code in files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(code), "utf-8")
    return Sources(release, folder)
