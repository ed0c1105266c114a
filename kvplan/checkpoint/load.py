"""What a model reference means, and the Checkpoint it leads to."""

from __future__ import annotations

import re
import sys
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from kvplan.checkpoint import catalog, mistral, speculators
from kvplan.checkpoint.mistral import PARAMS_FILE
from kvplan.checkpoint.reading import CONFIG_FILE, INDEX_FILE, QUANT_FILE, Document, read_file, read_stream
from kvplan.checkpoint.values import Checkpoint, Source
from kvplan.errors import InputError

if TYPE_CHECKING:
    from kvplan.checkpoint.normalise import Normalised

STDIN = "-"
_PATH_LIKE = re.compile(r"(\.{1,2}(/|\\|$)|/|~|[A-Za-z]:[\\/])")


def load(
    reference: str,
    *,
    offline: bool = False,
    stdin: TextIO | None = None,
    hf_overrides: Mapping[str, Any] | None = None,
    draft: bool = False,
    config_format: str | None = None,
    local: bool = True,
) -> Checkpoint:
    """Read and normalise the model meant by `reference`.

    A reference is a directory with a config.json, a config.json, `-` for one on standard input (`stdin`, by default
    the process's own), a name of the catalog (with or without its organisation, in any case), or a Hub repository
    `organisation/name`. What exists as a path, or looks like one, is a path; the catalog comes before the Hub.
    `offline` forbids the network but not the local Hub cache. `hf_overrides` is the value of vLLM's
    `--hf-overrides`; it does not change `config_sha256`, which is the digest of the file's bytes. `draft` takes the
    speculators format, whose config wraps that of a draft's layers. `config_format` is vLLM's `--config-format`: `hf`
    reads config.json, `mistral` params.json, `auto` the latter where Mistral's weights lie beside it or there is no
    config.json. Without `local` no path of this machine is meant: the name is one of the catalog or the Hub.

    Raises InputError with one line where anything about the reference or its files cannot be used.
    """
    if not reference.strip() or "\0" in reference:
        raise InputError("the model reference is empty: give a model name, a directory or a config.json")
    if reference == STDIN:
        return _from_stdin(stdin or sys.stdin, hf_overrides)
    path = Path(reference).expanduser() if reference.startswith("~") else Path(reference)
    if not local and (reference == STDIN or _PATH_LIKE.match(reference) is not None):
        raise InputError(
            f"{reference}: lies outside of what is scanned, so it is not read: --model-map says what it is"
        )
    if local and is_path(reference):
        return _from_path(reference, path, hf_overrides, draft=draft, config_format=config_format or "auto")
    entry = catalog.find(reference)
    if entry is not None:
        return _from_catalog(reference, entry, hf_overrides)
    return _from_hub(reference, offline, hf_overrides, draft=draft, config_format=config_format or "auto")


def looks_like_path(reference: str) -> bool:
    """Whether a reference is written as a path, so that nobody takes it for a model's name."""
    return reference == STDIN or _PATH_LIKE.match(reference) is not None or reference.endswith(".json")


def is_path(reference: str) -> bool:
    """Whether a reference is a path: standard input, what looks like a path, and what exists as one."""
    return reference == STDIN or _PATH_LIKE.match(reference) is not None or _exists(Path(reference))


def files_of(reference: str) -> tuple[Path, ...]:
    """What is read where a reference is a path: that path, and the files that a model's directory may hold."""
    path = Path(reference).expanduser() if reference.startswith("~") else Path(reference)
    return (path, *(path / name for name in _READ)) if not path.is_file() else (path,)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _read(path: Path, file: str, *, draft: bool) -> Document:
    """A config.json; that of a draft in the speculators format is unwrapped."""
    document = read_file(path, file=file)
    if not draft or not speculators.is_speculator(document.data):
        return document
    return replace(document, data=speculators.unwrap(document.data, file))


PROCESSOR_FILES = ("processor_config.json", "preprocessor_config.json")
"""Files that say how a multimodal model's inputs are cut into tokens."""


_READ = (CONFIG_FILE, PARAMS_FILE, QUANT_FILE, INDEX_FILE, *PROCESSOR_FILES)


def _unknown(reference: str) -> str:
    nearest = catalog.nearest(reference)
    hint = f"did you mean {', '.join(nearest)}? Or give" if nearest else "give"
    return (
        f"{reference[:200]}: is not a path, nor a model of the catalog: {hint} a directory, a config.json or a Hub "
        "repository (organisation/name); 'kvplan models' lists the catalog"
    )


def _from_stdin(stream: TextIO, hf_overrides: Mapping[str, Any] | None) -> Checkpoint:
    document = read_stream(stream, file="<stdin>")
    return _checkpoint(STDIN, document, name="stdin", source=Source.STDIN, hf_overrides=hf_overrides)


def _from_path(
    reference: str, path: Path, hf_overrides: Mapping[str, Any] | None, *, draft: bool, config_format: str
) -> Checkpoint:
    from kvplan.checkpoint import weights

    try:
        directory = path.is_dir()
    except OSError:
        directory = False
    source = Source.DIRECTORY if directory else Source.FILE
    config = _chosen(path, config_format, reference) if directory else path
    folder = config.parent
    whole = directory or config.name in (CONFIG_FILE, PARAMS_FILE)
    custom_format = config.name == PARAMS_FILE
    if custom_format:
        document = _params(config, str(config), folder / CONFIG_FILE)
        quant = None
    else:
        document = _read(config, str(config), draft=draft)
        quant = _optional(folder / QUANT_FILE) if whole else None
    name = folder.resolve().name if whole else config.stem
    return _checkpoint(
        reference,
        document,
        name=name,
        source=source,
        path=str(config),
        quant=quant,
        weight_bytes=weights.in_directory(folder),
        hf_overrides=hf_overrides,
        has_processor=any(_exists(folder / name) for name in PROCESSOR_FILES),
        custom_format=custom_format,
    )


def _chosen(folder: Path, config_format: str, reference: str) -> Path:
    """The file of a model's directory that vLLM reads; config.json where params.json is asked for and lacking, which
    vLLM refuses (`engine/checks/formats.py`). Raises InputError where it is not there."""
    params, config = folder / PARAMS_FILE, folder / CONFIG_FILE
    if config_format == "auto":
        prefers = _exists(params) and (not _exists(config) or bool(list(folder.glob(mistral.WEIGHTS))))
        config_format = "mistral" if prefers else "hf"
    chosen = params if config_format == "mistral" and (_exists(params) or not _exists(config)) else config
    if not _exists(chosen):
        raise InputError(f"{reference}: the directory has no {chosen.name}: give the directory of a model")
    return chosen


def _params(path: Path, file: str, beside: Path | None) -> Document:
    """A params.json as the config.json that means the same, with what a config.json `beside` it adds."""
    document = read_file(path, file=file)
    more = read_file(beside).data if beside is not None and _exists(beside) else {}
    return replace(document, data=mistral.adapted(document.data, more, file))


def _from_hub(
    repo_id: str, offline: bool, hf_overrides: Mapping[str, Any] | None, *, draft: bool, config_format: str
) -> Checkpoint:
    from kvplan.checkpoint import hub, weights

    if not hub.is_repo_id(repo_id):
        raise InputError(_unknown(repo_id))
    try:
        path, source = hub.find(repo_id, offline=offline, config_format=config_format)
    except InputError as error:
        nearest = catalog.nearest(repo_id)
        if nearest:
            raise InputError(f"{error}; nearest in the catalog: {', '.join(nearest)}") from None
        raise
    quant = None
    custom_format = path.name == PARAMS_FILE
    if custom_format:
        document = _params(path, f"{repo_id}/{PARAMS_FILE}", hub.companion(repo_id, CONFIG_FILE, offline=offline))
    else:
        document = _read(path, f"{repo_id}/{CONFIG_FILE}", draft=draft)
    if not custom_format and document.data.get("quantization_config") is None:
        quant_path = hub.companion(repo_id, QUANT_FILE, offline=offline)
        quant = read_file(quant_path, file=f"{repo_id}/{QUANT_FILE}") if quant_path else None
    index = hub.companion(repo_id, INDEX_FILE, offline=offline)
    size = weights.from_index(index) if index else None
    return _checkpoint(
        repo_id,
        document,
        name=repo_id,
        source=source,
        path=str(path),
        quant=quant,
        weight_bytes=size,
        hf_overrides=hf_overrides,
        custom_format=custom_format,
    )


def _from_catalog(reference: str, entry: catalog.CatalogEntry, hf_overrides: Mapping[str, Any] | None) -> Checkpoint:
    if not hf_overrides:
        return catalog.checkpoint(entry, reference)
    document, quant = catalog.raw(entry)
    return _checkpoint(
        reference,
        document,
        name=entry.name,
        source=Source.CATALOG,
        quant=quant,
        provenance=entry.provenance,
        incomplete=entry.incomplete,
        hf_overrides=hf_overrides,
    )


def _checkpoint(
    reference: str,
    document: Document,
    *,
    name: str,
    source: Source,
    path: str | None = None,
    quant: Document | None = None,
    weight_bytes: int | None = None,
    provenance: str | None = None,
    incomplete: str | None = None,
    has_processor: bool = True,
    hf_overrides: Mapping[str, Any] | None,
    custom_format: bool = False,
) -> Checkpoint:
    found = _plain(document, hf_overrides) if custom_format else _normalised(document, quant, hf_overrides)
    return Checkpoint(
        reference=reference,
        name=name,
        source=source,
        path=path,
        config_sha256=document.sha256,
        config=found.config,
        text_config=found.text_config,
        architectures=found.architectures,
        model_type=found.model_type,
        quantization=found.quantization,
        normalised_by=found.by,
        weight_bytes=weight_bytes,
        provenance=provenance,
        incomplete=incomplete,
        has_processor=has_processor,
    )


def _plain(document: Document, hf_overrides: Mapping[str, Any] | None) -> Normalised:
    """A config made of a params.json. It is not remembered: what it holds also depends on the config.json beside it."""
    from kvplan.checkpoint.normalise import normalise

    return normalise(document.data, file=document.file, hf_overrides=hf_overrides, config_class=mistral.PlainConfig)


_KEPT = 256
_cache: OrderedDict[str, Normalised] = OrderedDict()


def _normalised(document: Document, quant: Document | None, hf_overrides: Mapping[str, Any] | None) -> Normalised:
    """`normalise`, remembered: planning thousands of launches of a few models reads each config once."""
    from kvplan.checkpoint.normalise import cache_key, normalise

    key = cache_key(document.sha256, quant.sha256 if quant else None, hf_overrides)
    if key in _cache and not speculators.is_speculator(document.data):
        _cache.move_to_end(key)
        return _cache[key]
    found = normalise(
        document.data,
        file=document.file,
        quant_file=quant.data if quant else None,
        hf_overrides=hf_overrides,
    )
    _cache[key] = found
    if len(_cache) > _KEPT:
        _cache.popitem(last=False)
    return found


def _optional(path: Path) -> Document | None:
    return read_file(path) if _exists(path) else None
