"""Rebuild the catalog from a directory of configs: `python -m kvplan.checkpoint.build CONFIGS_DIR`.

The directory has one folder `organisation__name` a model with its config.json (and hf_quant_config.json), and an
INDEX.csv with the columns `folder`, `source`, `source_kind` and `completeness`. Folders that begin with `_` are not
models. The bytes written depend on nothing but the files and the version of transformers.
"""

from __future__ import annotations

import csv
import hashlib
import json
import lzma
import re
import sys
import zlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from kvplan.checkpoint.catalog import DATA, INDEX_FILE, PIECES_FILE, RAW_FILE
from kvplan.checkpoint.normalise import Normalised, normalise
from kvplan.checkpoint.reading import CONFIG_FILE, QUANT_FILE, Document, read_file
from kvplan.errors import InputError

FILES = (CONFIG_FILE, QUANT_FILE)


def piece_of(document: Document, found: Normalised) -> dict[str, Any]:
    """What the catalog keeps of one model; `text` is the way from the config to its language section."""
    return {
        "sha256": document.sha256,
        "config": found.config,
        "text": _way(found.config, found.text_config),
        "architectures": list(found.architectures),
        "quantization": found.quantization,
        "by": found.by,
    }


def encode(value: object) -> bytes:
    """JSON with one spelling only."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _way(config: Mapping[str, Any], text: Mapping[str, Any]) -> list[str]:
    if text is config:
        return []
    for name, value in config.items():
        if isinstance(value, dict) and name.endswith(("config", "decoder", "generator", "text_encoder")):
            if value is text:
                return [name]
            try:
                return [name, *_way(value, text)]
            except LookupError:
                continue
    raise LookupError("the language section is not a part of the config")


def build(configs: Path, data: Path = DATA) -> list[str]:
    """Write the catalog's three files into `data`; returns one line for each folder that is left out."""
    skipped = []
    index: list[list[object]] = []
    pieces = bytearray()
    raw: dict[str, dict[str, str]] = {}
    for row in _rows(configs):
        folder = configs / row["folder"]
        name = row["folder"].replace("__", "/", 1)
        try:
            document = read_file(folder / FILES[0], file=name)
            quant_path = folder / FILES[1]
            quant = read_file(quant_path, file=name) if quant_path.exists() else None
            found = normalise(document.data, file=name, quant_file=quant.data if quant else None)
        except InputError as error:
            skipped.append(str(error))
            continue
        missing = PUBLISHED.get(name)
        if missing is not None:
            document = _completed(document, missing)
            found = normalise(document.data, file=name, quant_file=quant.data if quant else None)
        piece = zlib.compress(encode(piece_of(document, found)), 9)
        architecture = found.architectures[0] if found.architectures else ""
        index.append(
            [name, architecture, found.model_type, _provenance(row), _incomplete(row), len(pieces), len(piece)]
        )
        pieces += piece
        raw[name] = {file: (folder / file).read_bytes().decode() for file in FILES if (folder / file).exists()}
        if missing is not None:
            raw[name][FILES[0]] = encode(document.data).decode()
    data.mkdir(exist_ok=True)
    lines = ",\n".join(json.dumps(row) for row in index)
    (data / INDEX_FILE).write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    (data / PIECES_FILE).write_bytes(pieces)
    (data / RAW_FILE).write_bytes(lzma.compress(encode(raw), preset=9 | lzma.PRESET_EXTREME))
    return skipped


def _rows(configs: Path) -> list[dict[str, str]]:
    with (configs / "INDEX.csv").open(encoding="utf-8", newline="") as stream:
        rows = [row for row in csv.DictReader(stream) if not row["folder"].startswith("_")]
    return sorted(rows, key=lambda row: row["folder"].lower())


_HOW_IT_WAS_READ = re.compile(r"[;(\s]*(?:read through|re-typed|re$)[^)]*(?:\)|$)|[;(,\s]*file id \d+\)?")
"""Remarks of an index on how a file was copied, which say nothing about the model."""


def _provenance(row: Mapping[str, str]) -> str:
    """Where the config was found."""
    source = _HOW_IT_WAS_READ.sub("", row["source"]).strip(" ;,")
    source += ")" * max(0, source.count("(") - source.count(")"))
    return source.replace("unnamed public repo", "a public repository")


def _incomplete(row: Mapping[str, str]) -> str | None:
    """What the copy is, where it is not the file as published."""
    if row["completeness"] == "trimmed":
        return "trimmed"
    return "reconstructed" if row["completeness"] == "reconstructed" else None


PUBLISHED: Mapping[str, Mapping[str, Any]] = {
    "LiquidAI/LFM2-1.2B": {"conv_dim": 2048},
    "deepseek-ai/DeepSeek-V4.1-Flash": {"text_config": {"max_position_embeddings": 1_048_576, "rope_theta": 10_000}},
    "mistralai/Mistral-Large-3-675B-Instruct-2512": {"model_type": "deepseek_v3"},
}
"""Values of the published configs that incomplete copies lack and without which a start ends otherwise. The model
type of Mistral-Large-3 is what vLLM sets when it reads its params.json."""


def _completed(document: Document, missing: Mapping[str, Any]) -> Document:
    """The document with the values it lacks."""
    data = _filled(document.data, missing)
    return replace(document, data=data, sha256=hashlib.sha256(encode(data)).hexdigest())


def _filled(data: Mapping[str, Any], missing: Mapping[str, Any]) -> dict[str, Any]:
    nested = {name: _filled(data[name], value) for name, value in missing.items() if isinstance(value, Mapping)}
    return {**data, **missing, **nested}


def main(arguments: list[str]) -> int:
    """Command line: one directory of configs."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m kvplan.checkpoint.build CONFIGS_DIR\n")
        return 2
    for line in build(Path(arguments[0])):
        sys.stderr.write(f"left out: {line}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
