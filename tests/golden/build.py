"""The golden tests' data: records of vLLM's own answers, and the configs they are about.

`records/` holds the records of each release, one JSON object a line; `extra/` those made later, for architectures
and releases that the first ones lack, in files of any name. `configs.zip` holds the config.json (and
hf_quant_config.json) of every folder that a record or a public case names.

    python -m tests.golden.build --configs DIR…                     configs.zip anew, after records were added to extra/
    python -m tests.golden.build --configs DIR… --records DIR       records/ too, from the RELEASE.jsonl.gz of a folder

A config is taken from the first DIR that has it, else from configs.zip as it is. The bytes depend on nothing but the
files.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import itertools
import json
import lzma
import re
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
CONFIGS = HERE / "configs.zip"
RECORDS = HERE / "records"
EXTRA = HERE / "extra"
CASES = HERE / "public_cases.jsonl"
FILES = ("config.json", "hf_quant_config.json")
_EPOCH = (1980, 1, 1, 0, 0, 0)
_PLACED = re.compile(r"\{configs\}/([\w.-]+)")


def build(configs: Sequence[Path], golden: Path | None = None) -> None:
    """Write `records/` where `golden` is given, and `configs.zip` for these and the extra ones."""
    if golden is not None:
        RECORDS.mkdir(exist_ok=True)
        for source in sorted(golden.glob("*.jsonl.gz")):
            target = RECORDS / source.name.replace(".jsonl.gz", ".jsonl.xz")
            target.write_bytes(_compressed(gzip.decompress(source.read_bytes())))
    with tempfile.TemporaryDirectory() as place:
        if CONFIGS.exists():
            unpack(Path(place))
        _pack(named(), (*configs, Path(place)))


def named() -> list[str]:
    """Folders of all configs that a record or a case names."""
    folders = {json.loads(line)["config"] for line in CASES.read_text("utf-8").splitlines()}
    for release in releases():
        for record in records(release):
            folders |= {record["config"], *others(record["flags"])}
    return sorted(folders)


def _pack(folders: Iterable[str], places: Sequence[Path]) -> None:
    """Write `configs.zip` with `folders`, each from the first of `places` that has it."""
    homes: dict[str, Path] = {}
    for folder in folders:
        home = next((place / folder for place in places if (place / folder).is_dir()), None)
        if home is None:
            raise SystemExit(f"no config of {folder}, which a record or a case names")
        homes[folder] = home
    with zipfile.ZipFile(CONFIGS, "w", zipfile.ZIP_LZMA) as archive:
        for folder, home in homes.items():
            for file in FILES:
                if (home / file).exists():
                    info = zipfile.ZipInfo(f"{folder}/{file}", _EPOCH)
                    info.compress_type = zipfile.ZIP_LZMA
                    archive.writestr(info, (home / file).read_bytes())


def others(flags: Sequence[str]) -> Iterator[str]:
    """Folders that a record's flags name: `{configs}/NAME`, and a draft model by its path."""
    for flag in flags:
        yield from _PLACED.findall(flag)
    for flag, value in itertools.pairwise(flags):
        if flag == "--speculative-config" and value.startswith("{"):
            with contextlib.suppress(ValueError):
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
        *(read(first) if first.exists() else ()),
        *(record for record in _extra() if record["release"] == release),
    ]


def unpack(target: Path) -> None:
    """Write every config under `target`, one folder each."""
    with zipfile.ZipFile(CONFIGS) as archive:
        archive.extractall(target)


def read(file: Path) -> Iterator[dict[str, Any]]:
    """The records of one file."""
    return (json.loads(line) for line in lzma.decompress(file.read_bytes()).splitlines())


def write(file: Path, told: Iterable[Mapping[str, Any]]) -> None:
    """Write records to a file of this form."""
    file.write_bytes(_compressed("".join(f"{json.dumps(record)}\n" for record in told).encode()))


def _extra() -> Iterator[dict[str, Any]]:
    for file in sorted(EXTRA.glob("*.jsonl.xz")):
        yield from read(file)


def _compressed(lines: bytes) -> bytes:
    return lzma.compress(lines, preset=9 | lzma.PRESET_EXTREME)


def main() -> None:
    """Build as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--configs", type=Path, action="append", default=[], metavar="DIR", help="one folder a config")
    parser.add_argument("--records", type=Path, metavar="DIR", help="a folder of RELEASE.jsonl.gz files")
    given = parser.parse_args()
    build(given.configs, given.records)


if __name__ == "__main__":
    main()
