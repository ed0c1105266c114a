"""The models that kvplan knows without network, weights or transformers.

`data/catalog.json` lists them, `data/catalog.bin` holds each one's normalised config as a compressed piece, so that
one model costs one seek, and `data/raw.json.xz` the files they were made from. `kvplan.checkpoint.build` writes all
three.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from kvplan.checkpoint.reading import CONFIG_FILE, QUANT_FILE, Document
from kvplan.checkpoint.values import Checkpoint, Source
from kvplan.errors import InputError

DATA = Path(__file__).parent / "data"
INDEX_FILE = "catalog.json"
PIECES_FILE = "catalog.bin"
RAW_FILE = "raw.json.xz"


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """One model of the catalog."""

    name: str
    """Hub id, `organisation/name`."""
    architecture: str
    """First architecture that the config names; empty where it names none."""
    model_type: str
    provenance: str
    """Where the config was found."""
    incomplete: str | None
    """`trimmed` or `reconstructed`, where the copy is not the file as published."""
    offset: int
    length: int


def names() -> list[CatalogEntry]:
    """Every model of the catalog, by name."""
    return list(_entries().values())


def find(reference: str) -> CatalogEntry | None:
    """The model called `reference`, with or without its organisation, in any case; None if there is none.

    Raises InputError when the bare name belongs to several organisations.
    """
    wanted = reference.strip().lower()
    if "/" in wanted:
        return _entries().get(wanted)
    found = _by_bare_name().get(wanted, ())
    if len(found) > 1:
        raise InputError(f"{reference}: is ambiguous: give one of {', '.join(entry.name for entry in found)}")
    return found[0] if found else None


def nearest(reference: str, limit: int = 3) -> list[str]:
    """Names of the catalog that look like `reference`, best first."""
    from difflib import get_close_matches

    wanted = reference.strip().lower()[:200]
    spellings = {key: entry.name for key, entry in _entries().items()}
    if "/" not in wanted:
        spellings = {bare: found[0].name for bare, found in _by_bare_name().items()}
    return [spellings[key] for key in get_close_matches(wanted, spellings, n=limit, cutoff=0.7)]


def checkpoint(entry: CatalogEntry, reference: str) -> Checkpoint:
    """The catalog's normalised config as a Checkpoint."""
    data = _piece(entry)
    config = data["config"]
    text: Any = config
    for step in data["text"]:
        text = text[step]
    return Checkpoint(
        reference=reference,
        name=entry.name,
        source=Source.CATALOG,
        path=None,
        config_sha256=data["sha256"],
        config=config,
        text_config=text,
        architectures=tuple(data["architectures"]),
        model_type=entry.model_type,
        quantization=data["quantization"],
        normalised_by=data["by"],
        weight_bytes=None,
        provenance=entry.provenance,
        incomplete=entry.incomplete,
    )


def raw(entry: CatalogEntry) -> tuple[Document, Document | None]:
    """The files a catalog model was made from: config.json, and hf_quant_config.json if there is one."""
    texts = _raw_texts()[entry.name]
    config = _document(texts[CONFIG_FILE], f"{entry.name}/{CONFIG_FILE}")
    quant = texts.get(QUANT_FILE)
    return config, _document(quant, f"{entry.name}/{QUANT_FILE}") if quant else None


def _document(text: str, file: str) -> Document:
    data: Mapping[str, Any] = json.loads(text)
    return Document(data=data, sha256=hashlib.sha256(text.encode()).hexdigest(), file=file)


@cache
def _entries() -> dict[str, CatalogEntry]:
    rows = json.loads(_resource(INDEX_FILE))
    return {row[0].lower(): CatalogEntry(*row) for row in rows}


@cache
def _by_bare_name() -> dict[str, tuple[CatalogEntry, ...]]:
    found: dict[str, tuple[CatalogEntry, ...]] = {}
    for key, entry in _entries().items():
        bare = key.split("/", 1)[1]
        found[bare] = (*found.get(bare, ()), entry)
    return found


@cache
def _piece(entry: CatalogEntry) -> dict[str, Any]:
    with (DATA / PIECES_FILE).open("rb") as pieces:
        pieces.seek(entry.offset)
        piece: dict[str, Any] = json.loads(zlib.decompress(pieces.read(entry.length)))
    return piece


@cache
def _raw_texts() -> dict[str, dict[str, str]]:
    import lzma

    texts: dict[str, dict[str, str]] = json.loads(lzma.decompress(_resource(RAW_FILE)))
    return texts


def _resource(name: str) -> bytes:
    return (DATA / name).read_bytes()
