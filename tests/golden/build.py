"""The golden tests' data: records of vLLM's own answers, and the configs they are about.

`records/` holds the records of each release, one JSON object a line; `extra/` those made later, for architectures
and releases that the first ones lack, in files of any name. `configs.zip` holds the config.json (and
hf_quant_config.json) of every folder that a record or a public case names.

`python tests/golden/build.py CONFIGS_DIR… GOLDEN_DIR` rebuilds `records/` and `configs.zip` (a folder is taken from the
first CONFIGS_DIR that has it). The bytes depend on nothing but the files.
"""

from __future__ import annotations

import gzip
import itertools
import json
import lzma
import sys
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
CONFIGS = HERE / "configs.zip"
RECORDS = HERE / "records"
EXTRA = HERE / "extra"
CASES = HERE / "public_cases.jsonl"
FILES = ("config.json", "hf_quant_config.json")
_EPOCH = (1980, 1, 1, 0, 0, 0)


def build(configs: Sequence[Path], golden: Path) -> None:
    """Write `records/`, and `configs.zip` for these and the extra ones."""
    RECORDS.mkdir(exist_ok=True)
    for source in sorted(golden.glob("*.jsonl.gz")):
        target = RECORDS / source.name.replace(".jsonl.gz", ".jsonl.xz")
        target.write_bytes(lzma.compress(gzip.decompress(source.read_bytes()), preset=9 | lzma.PRESET_EXTREME))
    folders = {json.loads(line)["config"] for line in CASES.read_text("utf-8").splitlines()}
    for release in releases():
        for record in records(release):
            folders |= {record["config"], *_drafts(record["flags"])}
    with zipfile.ZipFile(CONFIGS, "w", zipfile.ZIP_LZMA) as archive:
        for folder in sorted(folders):
            home = next((place / folder for place in configs if (place / folder).is_dir()), None)
            if home is None:
                raise SystemExit(f"no config of {folder}, which a record or a case names")
            for file in FILES:
                if (home / file).exists():
                    info = zipfile.ZipInfo(f"{folder}/{file}", _EPOCH)
                    info.compress_type = zipfile.ZIP_LZMA
                    archive.writestr(info, (home / file).read_bytes())


def _drafts(flags: Sequence[str]) -> Iterator[str]:
    """Folders of the draft models that a record's speculative config names by path."""
    for flag, value in itertools.pairwise(flags):
        if flag == "--speculative-config":
            model = json.loads(value).get("model")
            if isinstance(model, str) and "/" in model:
                yield Path(model).name


def releases() -> list[str]:
    """Releases that have records, oldest first."""
    names = {path.name.removesuffix(".jsonl.xz") for path in RECORDS.glob("*.jsonl.xz")}
    names |= {record["release"] for record in _extra()}
    return sorted(names, key=lambda name: tuple(map(int, name.split("."))))


def records(release: str) -> list[dict[str, Any]]:
    """The records of one release."""
    first = RECORDS / f"{release}.jsonl.xz"
    return [
        *(_read(first) if first.exists() else ()),
        *(record for record in _extra() if record["release"] == release),
    ]


def unpack(target: Path) -> None:
    """Write every config under `target`, one folder each."""
    with zipfile.ZipFile(CONFIGS) as archive:
        archive.extractall(target)


def _extra() -> Iterator[dict[str, Any]]:
    for file in sorted(EXTRA.glob("*.jsonl.xz")):
        yield from _read(file)


def _read(file: Path) -> Iterator[dict[str, Any]]:
    return (json.loads(line) for line in lzma.decompress(file.read_bytes()).splitlines())


if __name__ == "__main__":
    build([Path(place) for place in sys.argv[1:-1]], Path(sys.argv[-1]))
