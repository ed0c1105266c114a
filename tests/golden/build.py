"""Rebuild the golden tests' data: `python tests/golden/build.py CONFIGS_DIR GOLDEN_DIR`.

`configs.zip` holds the config.json (and hf_quant_config.json) of every folder that a golden record or a public case
names,
`records/` the records of each release, one JSON object a line. The bytes depend on nothing but the files.
"""

from __future__ import annotations

import gzip
import json
import lzma
import sys
import zipfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
CONFIGS = HERE / "configs.zip"
RECORDS = HERE / "records"
CASES = HERE / "public_cases.jsonl"
FILES = ("config.json", "hf_quant_config.json")
_EPOCH = (1980, 1, 1, 0, 0, 0)


def build(configs: Path, golden: Path) -> None:
    """Write `configs.zip` and `records/`."""
    RECORDS.mkdir(exist_ok=True)
    folders = {json.loads(line)["config"] for line in CASES.read_text("utf-8").splitlines()}
    for source in sorted(golden.glob("*.jsonl.gz")):
        lines = gzip.decompress(source.read_bytes())
        folders.update(json.loads(line)["config"] for line in lines.splitlines())
        target = RECORDS / source.name.replace(".jsonl.gz", ".jsonl.xz")
        target.write_bytes(lzma.compress(lines, preset=9 | lzma.PRESET_EXTREME))
    with zipfile.ZipFile(CONFIGS, "w", zipfile.ZIP_LZMA) as archive:
        for folder in sorted(folders):
            for file in FILES:
                path = configs / folder / file
                if path.exists():
                    info = zipfile.ZipInfo(f"{folder}/{file}", _EPOCH)
                    info.compress_type = zipfile.ZIP_LZMA
                    archive.writestr(info, path.read_bytes())


def releases() -> list[str]:
    """Releases that have records, as files name them."""
    return sorted(path.name.removesuffix(".jsonl.xz") for path in RECORDS.glob("*.jsonl.xz"))


def records(release: str) -> list[dict[str, Any]]:
    """The records of one release."""
    lines = lzma.decompress((RECORDS / f"{release}.jsonl.xz").read_bytes())
    return [json.loads(line) for line in lines.splitlines()]


def unpack(target: Path) -> None:
    """Write every config under `target`, one folder each."""
    with zipfile.ZipFile(CONFIGS) as archive:
        archive.extractall(target)


if __name__ == "__main__":
    build(Path(sys.argv[1]), Path(sys.argv[2]))
