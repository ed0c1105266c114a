"""A walk through files and directories for launches of vLLM."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from kvplan.errors import InputError
from kvplan.launch.found import Found, FoundLaunch, Surroundings, Unreadable
from kvplan.launch.passages import Passage, Source
from kvplan.launch.resolving import Answers

MAX_BYTES = 4_000_000
"""Larger files are no manifests."""

STDIN = "-"
STDIN_NAME = "<stdin>"
"""What reports call standard input."""

_SKIPPED = frozenset(
    {".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", "venv", ".tox", ".mypy_cache", ".ruff_cache"}
)


@dataclass(frozen=True, slots=True)
class Text:
    """One file that may hold launches."""

    source: Source
    path: Path | None
    """None for standard input."""

    @property
    def base(self) -> Path | None:
        """The directory that relative names in the file start from."""
        return None if self.path is None else self.path.parent


@dataclass(frozen=True, slots=True)
class FileResult:
    """What one file holds, in the order in which it stands there."""

    name: str
    base: Path | None
    found: tuple[Found, ...] = field(default=())


def candidates(paths: Sequence[str]) -> Iterator[tuple[str, Path | None] | Unreadable]:
    """The files to read, by the name that reports call them, in a stable order; None as path is standard input.

    Directories are walked in the order of names; links are followed once. Raises InputError for a path that is
    empty or does not exist.
    """
    for path in paths:
        if path == STDIN:
            yield STDIN_NAME, None
            continue
        if not path:
            raise InputError("an empty path: name a file, a directory, or - for standard input")
        try:
            mode = Path(path).stat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            raise InputError(f"{path}: there is no such file or directory") from None
        except (OSError, ValueError) as error:
            yield Unreadable(path, _reason(error))
            continue
        if stat.S_ISDIR(mode):
            yield from _walk(path, [])
        elif stat.S_ISREG(mode):
            yield path, Path(path)
        else:
            yield Unreadable(path, "not a regular file")


def _walk(directory: str, above: list[tuple[int, int]]) -> Iterator[tuple[str, Path | None] | Unreadable]:
    try:
        here = Path(directory).stat()
        entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
    except OSError as error:
        yield Unreadable(directory, _reason(error))
        return
    identity = (here.st_dev, here.st_ino)
    if identity in above:
        # A link to a directory whose files are being read already.
        return
    for entry in entries:
        name = entry.path.removeprefix(f".{os.sep}")
        try:
            if entry.is_dir():
                if entry.name not in _SKIPPED:
                    yield from _walk(name, [*above, identity])
            elif kind_of(entry.name) is not None and (entry.is_file() or entry.is_symlink()):
                entry.stat()
                if entry.is_file():
                    yield name, Path(name)
        except OSError as error:
            yield Unreadable(name, _reason(error))


def read(name: str, path: Path | None, stdin: BinaryIO | None = None) -> Text | Unreadable | None:
    """The text of a file; None where nothing in it speaks of vLLM."""
    try:
        if path is None:
            raw = b"" if stdin is None else stdin.read(MAX_BYTES + 1)
        else:
            with path.open("rb") as stream:
                raw = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        return Unreadable(name, _reason(error))
    if not _SPEAKS.search(raw) and not _always_told(name):
        return None
    if len(raw) > MAX_BYTES:
        return Unreadable(name, f"larger than {MAX_BYTES // 1_000_000} MB, so hardly a manifest")
    if b"\0" in raw:
        return Unreadable(name, "a binary file")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return Unreadable(name, f"not UTF-8 text (byte {error.start})")
    return Text(Source(name, text.replace("\r\n", "\n")), path) if _SPEAKS.search(raw) else None


def _always_told(name: str) -> bool:
    """Whether a file of this name is told of when it cannot be read, whatever is in it: manifests and scripts are,
    data, code and prose that never mention vLLM are not."""
    return kind_of(name) not in ("python", "markdown") and not name.lower().endswith(".json")


_SPEAKS = re.compile(
    rb"vllm|kaito\.sh|serving\.kserve\.io|ome\.io/|kubeai\.org|LLMConfig|model_loading_config"
    rb"|(?:kv.cache.dtype|tensor.parallel.size|gpu.memory.utilization|max.model.len|max.num.seqs)",
    re.IGNORECASE,
)
"""What a file with a launch speaks of."""

_BY_SUFFIX = {
    ".yaml": "yaml",
    ".yml": "yaml",
    ".json": "yaml",
    ".sh": "shell",
    ".bash": "shell",
    ".zsh": "shell",
    ".slurm": "shell",
    ".sbatch": "shell",
    ".dockerfile": "dockerfile",
    ".md": "markdown",
    ".markdown": "markdown",
    ".mdx": "markdown",
    ".service": "systemd",
    ".conf": "systemd",
    ".py": "python",
    ".tpl": "yaml",
}


def kind_of(name: str) -> str | None:
    """What a file of this name holds; None where launches are not looked for."""
    lower = PurePosixPath(name).name.lower()
    if lower.startswith(("dockerfile", "containerfile")):
        return "dockerfile"
    return _BY_SUFFIX.get(PurePosixPath(lower).suffix)


_YAML = re.compile(r"(?:[ \t]*(?:#[^\n]*)?\n)*(?:[A-Za-z_][\w./-]*:(?:[ \t\n]|$)|-[ \t]|\{)", re.ASCII)
"""How a YAML or JSON text begins: comments, then a key, an item or a brace."""


def _content_kind(text: str) -> str:
    """What a text without a telling name holds."""
    first = text.lstrip().partition("\n")[0]
    if first.startswith("#!"):
        return "python" if "python" in first else "shell"
    if re.search(r"(?mi)^\s*FROM\s+\S+", text) and re.search(r"(?m)^\s*(?:ENTRYPOINT|CMD|RUN)\b", text):
        return "dockerfile"
    if re.search(r"(?m)^\[Service\]", text):
        return "systemd"
    if _YAML.match(text) or re.search(r"(?m)^(?:---|apiVersion:|services:)", text):
        return "yaml"
    return "shell"


def config_maps(text: Text) -> dict[str, dict[str, Passage]]:
    """The ConfigMaps of a file, by name and key, for the pods of other files in its directory."""
    from kvplan.launch.sources import kubernetes, yamlfile

    if "ConfigMap" not in text.source.text or kind_of(text.source.name) != "yaml":
        return {}
    documents: list[yamlfile.Node] = []
    try:
        documents += yamlfile.documents(text.source)
    except yamlfile.YamlProblem:
        # Told where the file itself is read.
        return {}
    return kubernetes.config_maps(documents)


def launches(text: Text, answers: Answers, maps: Mapping[str, dict[str, Passage]] | None = None) -> FileResult:
    """Every launch of one file, each once, in the order in which they stand there.

    `maps` are the ConfigMaps of the files beside it.
    """
    from kvplan.launch.sources import registry

    kind = kind_of(text.source.name) or _content_kind(text.source.text)
    found: dict[object, Found] = {}
    around = Surroundings(kind=kind)
    try:
        for one in registry.read(kind, text.source, around, answers, text.base, maps or {}):
            key = identity(one)
            if key not in found or knows_more(one, found[key]):
                found[key] = one
    except RecursionError:
        deep = Unreadable(text.source.name, "nested too deeply to be followed")
        found[identity(deep)] = deep
    ordered = sorted(found.values(), key=_position)
    return FileResult(text.source.name, text.base, tuple(ordered))


def identity(one: Found) -> object:
    """What makes a launch the same: its words and where they stand, whichever way they were found."""
    if isinstance(one, Unreadable):
        return (one.file, one.location, one.reason)
    return (one.location, tuple(word.text for word in one.words))


def _position(one: Found) -> tuple[int, int]:
    return (0, 0) if one.location is None else (one.location.line, one.location.column)


def knows_more(one: Found, other: Found) -> bool:
    """Whether `one` was found in more telling surroundings than `other`, which is the same launch."""
    if not isinstance(one, FoundLaunch) or not isinstance(other, FoundLaunch):
        return False
    return _known(one) > _known(other)


def _known(launch: FoundLaunch) -> int:
    around = launch.around
    return sum(value is not None for value in (around.release, around.gpu, around.count, around.platform))


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror[0].lower() + error.strerror[1:]
    return str(error)
