"""What kvplan's interpreter asks of the one that runs vLLM: a job, written as JSON, with one case a question.

Read on both sides: nothing but the standard library here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Case:
    """One launch to start."""

    config: str
    """Folder with the model's config.json."""
    flags: tuple[str, ...]
    """What follows `vllm serve MODEL`."""
    available_bytes: int
    """Memory of each GPU that vLLM is told it has for the cache."""
    answer: str
    """File that the answer is written to, as JSON."""
    log: str
    """File that what vLLM prints is written to."""


@dataclass(frozen=True, slots=True)
class Job:
    """Cases that share one import of vLLM: of one release, one GPU and one environment, which vLLM reads then."""

    release: str
    sources: str
    """Folder with the release's package `vllm`."""
    home: str
    """The oracle's own folder, for caches."""
    gpu: str
    environment: Mapping[str, str]
    """The questions' variables; they are in the process's environment already."""
    timeout: int
    """Seconds that a case may take."""
    cases: tuple[Case, ...]

    def write(self, file: Path) -> None:
        """Store it."""
        file.write_text(json.dumps(asdict(self)), encoding="utf-8")


def read(file: Path) -> Job:
    """The job that `write` stored."""
    told = json.loads(file.read_text(encoding="utf-8"))
    cases = tuple(Case(**{**case, "flags": tuple(case["flags"])}) for case in told.pop("cases"))
    return Job(**told, cases=cases)
