"""A walk through files and directories for launches of vLLM."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import BinaryIO, TypeVar

from kvplan.errors import InputError
from kvplan.files import Ground, read_bytes
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
    ground: Ground | None = None
    """What may be read on the file's word; nothing by default."""

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
    ground: Ground | None = None


def candidates(paths: Sequence[str], ground: Ground | None = None) -> Iterator[tuple[str, Path | None] | Unreadable]:
    """The files to read, by the name that reports call them, in a stable order; None as path is standard input.

    Directories are walked in the order of names, and links not out of the `ground`. Raises InputError for a path
    that is empty or does not exist.
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
            yield from _walk(path, ground)
        elif stat.S_ISREG(mode):
            yield path, Path(path)
        else:
            yield Unreadable(path, "not a regular file")


def _walk(top: str, ground: Ground | None) -> Iterator[tuple[str, Path | None] | Unreadable]:
    """The files below a directory, in the order of names, however deep its folders nest.

    A link to a folder is not gone through: what it leads to on the ground is read where it stands itself.
    """
    waiting: list[tuple[str, bool]] = [(top, True)]
    while waiting:
        name, directory = waiting.pop()
        if not directory:
            yield name, Path(name)
            continue
        try:
            entries = sorted(os.scandir(name), key=lambda entry: entry.name, reverse=True)
        except OSError as error:
            yield Unreadable(name, _reason(error))
            continue
        lost: list[Unreadable] = []
        for entry in entries:
            found = _entry(entry, ground)
            if isinstance(found, Unreadable):
                lost.append(found)
            elif found is not None:
                waiting.append(found)
        yield from reversed(lost)


def _entry(entry: os.DirEntry[str], ground: Ground | None) -> tuple[str, bool] | Unreadable | None:
    """What an entry of a folder is to the walk: a file or a folder to look at, something lost, or nothing."""
    name = entry.path.removeprefix(f".{os.sep}")
    try:
        linked, directory = entry.is_symlink(), entry.is_dir()
        if directory and entry.name in _SKIPPED:
            return None
        if not directory and kind_of(entry.name) is None:
            return None
        if linked and ground is not None and not ground.holds(entry.path):
            entry.stat()
            return Unreadable(name, "a link that leads out of what is scanned, so it is not followed")
        if directory:
            return None if linked else (name, True)
        entry.stat()
        return (name, False) if entry.is_file() else None
    except OSError as error:
        return Unreadable(name, _reason(error))


def read(
    name: str, path: Path | None, stdin: BinaryIO | None = None, ground: Ground | None = None
) -> Text | Unreadable | None:
    """The text of a file; None where nothing in it speaks of vLLM."""
    try:
        if path is not None:
            raw = read_bytes(path, MAX_BYTES + 1)
        else:
            raw = b"" if stdin is None else stdin.read(MAX_BYTES + 1)
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
    return Text(Source(name, text.replace("\r\n", "\n")), path, ground) if _SPEAKS.search(raw) else None


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
    if re.search(r"(?mi)^[ \t]*FROM[ \t]+\S+", text) and re.search(r"(?m)^[ \t]*(?:ENTRYPOINT|CMD|RUN)\b", text):
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
    found: list[Found] = []
    around = Surroundings(kind=kind)
    try:
        found += registry.read(kind, text.source, around, answers, text.base, maps or {}, text.ground)
    except RecursionError:
        found.append(Unreadable(text.source.name, "nested too deeply to be followed"))
    ordered = sorted(distinct(found, lambda one: one), key=_position)
    return FileResult(text.source.name, text.base, tuple(ordered), text.ground)


Item = TypeVar("Item")

_LOOSE = frozenset({"ConfigMap", "YAML", "shell", "Markdown", "--config file"})
"""Kinds that only hold the text of a launch: who starts it is told elsewhere, if at all."""

_LOOKED_AT = 50
"""So many launches of one place are held against each other; of more, only equal ones count as one."""


def distinct(items: Iterable[Item], found_of: Callable[[Item], Found]) -> list[Item]:
    """Each launch once, in its most telling surroundings, in the order in which they were first found.

    The words of a script are found in the ConfigMap that holds it and in the pod that mounts it: that is one launch.
    Two pods that mount it are two, where they differ in what the plan depends on.
    """
    kept: dict[object, dict[object, Item]] = {}
    for item in items:
        one = found_of(item)
        if isinstance(one, Unreadable):
            kept.setdefault((one.file, one.location, one.reason), {}).setdefault("", item)
            continue
        place = kept.setdefault((one.location, tuple(word.text for word in one.words)), {})
        facts = _facts(one)
        if facts in place:
            continue
        near = list(place.items())[:_LOOKED_AT]
        if any(_covers(found_of(other), one) for _, other in near):
            continue
        poorer = [key for key, other in near if _covers(one, found_of(other))]
        if poorer:
            # The same launch, told better: it stays where it was first found.
            left = dict.fromkeys(poorer)
            rows = [(facts, item) if key == poorer[0] else (key, other) for key, other in place.items()]
            place.clear()
            place.update(row for row in rows if row[0] not in left)
        else:
            place[facts] = item
    return [item for place in kept.values() for item in place.values()]


def _facts(launch: FoundLaunch) -> tuple[object, ...]:
    """What stands around a launch and changes its plan."""
    around = launch.around
    environment = tuple(
        sorted((name, value.text, value.unknown) for name, value in around.environment.items() if _counts(name))
    )
    return (around.release, around.gpu, around.count, around.platform, environment)


def _counts(name: str) -> bool:
    return name.startswith("VLLM_") or name == "CUDA_VISIBLE_DEVICES"


def _covers(one: Found, other: Found) -> bool:
    """Whether `other` is the same launch as `one` with less known about it."""
    if not isinstance(one, FoundLaunch) or not isinstance(other, FoundLaunch):
        return False
    same = (one.around.kind, one.around.name) == (other.around.kind, other.around.name)
    if not same and other.around.kind not in _LOOSE:
        return False
    *facts, environment = _facts(one)
    *others, fewer = _facts(other)
    agreeing = all(mine == theirs or theirs is None for mine, theirs in zip(facts, others, strict=True))
    return agreeing and set(_pairs(fewer)) <= set(_pairs(environment))


def _pairs(environment: object) -> tuple[object, ...]:
    return environment if isinstance(environment, tuple) else ()


def _position(one: Found) -> tuple[int, int]:
    return (0, 0) if one.location is None else (one.location.line, one.location.column)


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror[0].lower() + error.strerror[1:]
    return str(error)
