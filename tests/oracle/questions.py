"""What is asked: one launch of one release on one GPU. Lines of JSON say it, as golden records do."""

from __future__ import annotations

import json
import lzma
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.oracle.errors import OracleError
from tests.oracle.gpus import GPUS

DEFAULT_BYTES = 60 << 30
"""Memory for the cache where the question names none."""
KEYS = frozenset({"id", "release", "gpu", "config", "flags", "env", "available_bytes", "mem_gib", "category", "sets"})
"""What a line may say; a golden record says more, which is passed over."""
ANSWERED = "outcome"
"""A key that only records have."""
_RELEASE = re.compile(r"\d+\.\d+\.\d+")


@dataclass(frozen=True, slots=True)
class Question:
    """One launch."""

    id: str
    release: str
    gpu: str
    config: str
    """Name of the config's folder."""
    flags: tuple[str, ...] = ()
    """What follows `vllm serve CONFIG`; `{configs}/NAME` stands for the folder of another config."""
    environment: Mapping[str, str] = field(default_factory=dict)
    available_bytes: int = DEFAULT_BYTES
    """Memory of each GPU that vLLM is told it has for the cache; may be negative, as vLLM's own figure may be."""
    category: str | None = None
    sets: tuple[str, ...] = ("all",)

    @property
    def together(self) -> tuple[str, str, str]:
        """BackendQuestions that are equal in this can share one import of vLLM."""
        return self.release, self.gpu, json.dumps(dict(self.environment), sort_keys=True)


def read(file: Path) -> list[Question]:
    """The questions of a file of JSON lines, perhaps xz-compressed; raises OracleError with the line that is bad."""
    found: list[Question] = []
    for number, line in enumerate(_text(file).splitlines(), 1):
        if not line.strip():
            continue
        try:
            found.append(of_line(json.loads(line)))
        except (ValueError, OracleError) as error:
            raise OracleError(f"{file}:{number}: {error}") from error
    ids = [question.id for question in found]
    twice = sorted({name for name in ids if ids.count(name) > 1})
    if twice:
        raise OracleError(f"{file}: asked twice under one id: {', '.join(twice[:5])}")
    return found


def of_line(told: Any) -> Question:
    """The question that a line tells; raises OracleError where it is none."""
    if not isinstance(told, dict):
        raise OracleError("not a JSON object")
    unknown = set(told) - KEYS
    if unknown and ANSWERED not in told:
        raise OracleError(f"unknown key {sorted(unknown)[0]!r}; known: {', '.join(sorted(KEYS))}")
    release, gpu, config = (_word(told, key) for key in ("release", "gpu", "config"))
    if not _RELEASE.fullmatch(release):
        raise OracleError(f"release {release!r} is not a version such as 0.33.0")
    if gpu not in GPUS:
        raise OracleError(f"unknown GPU {gpu!r}; known: {', '.join(GPUS)}")
    flags = _words(told, "flags")
    return Question(
        id=told.get("id") or f"{release}/{config}--{gpu}--{'_'.join(flags) or 'plain'}",
        release=release,
        gpu=gpu,
        config=config,
        flags=flags,
        environment=_environment(told),
        available_bytes=_bytes(told),
        category=told.get("category"),
        sets=_words(told, "sets") or ("all",),
    )


def of_records(records: Iterable[Mapping[str, Any]], release: str) -> list[Question]:
    """The questions of golden records, asked of `release`; an id says the release in one of its parts."""
    asked = []
    for record in records:
        own = of_line({key: value for key, value in record.items() if key in KEYS})
        parts = [release if part == own.release else part for part in own.id.split("/")]
        told = {key: value for key, value in record.items() if key in KEYS}
        asked.append(of_line({**told, "id": "/".join(parts), "release": release}))
    return asked


def batches(questions: Sequence[Question], jobs: int, least: int = 8) -> Iterator[list[Question]]:
    """BackendQuestions that share an import, in parts that keep `jobs` processes busy.

    A part has at least `least` questions where there are as many: an import takes as long as several cases.
    """
    together: dict[tuple[str, str, str], list[Question]] = {}
    for question in questions:
        together.setdefault(question.together, []).append(question)
    for group in sorted(together.values(), key=len, reverse=True):
        size = max(least, -(-len(group) // jobs))
        yield from (group[start : start + size] for start in range(0, len(group), size))


def _text(file: Path) -> str:
    try:
        raw = file.read_bytes()
    except OSError as error:
        raise OracleError(f"{file}: {error.strerror}") from error
    return (lzma.decompress(raw) if file.suffix == ".xz" else raw).decode()


def _word(told: Mapping[str, Any], key: str) -> str:
    value = told.get(key)
    if not isinstance(value, str) or not value:
        raise OracleError(f"no {key!r}")
    return value


def _words(told: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = told.get(key, ())
    if not isinstance(value, list | tuple) or not all(isinstance(word, str) for word in value):
        raise OracleError(f"{key!r} is not a list of strings")
    return tuple(value)


def _environment(told: Mapping[str, Any]) -> dict[str, str]:
    value = told.get("env") or {}
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise OracleError("'env' is not an object of strings")
    return dict(value)


def _bytes(told: Mapping[str, Any]) -> int:
    if "available_bytes" in told and "mem_gib" in told:
        raise OracleError("both 'available_bytes' and 'mem_gib'")
    value = told.get("available_bytes", told.get("mem_gib"))
    if value is None:
        return DEFAULT_BYTES
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise OracleError("memory is not a number")
    return int(value) if "available_bytes" in told else int(value * (1 << 30))
