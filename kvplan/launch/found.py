"""What a search through files finds: launches of vLLM with where they were written, and what it could not follow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kvplan.launch.locations import Location
from kvplan.launch.parser import EntryPoint
from kvplan.launch.passages import Passage
from kvplan.launch.values import Hardware


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A file, or a launch in it, that could not be followed, and why."""

    file: str
    reason: str
    location: Location | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What stands around a command and applies to it."""

    kind: str
    """What holds the command: `Deployment`, `compose service`, `shell`, …"""
    name: str = ""
    """What it is called there, such as `glm-prefill/vllm`."""
    release: str | None = None
    """The vLLM release that an image tag or a `pip install` names."""
    release_reason: str = "nothing here names vLLM's release"
    """Why `release` is None."""
    gpu: Hardware | None = None
    count: int | None = None
    """GPUs of one engine, where the file says it."""
    platform: str | None = None
    """The platform, where it is not NVIDIA's: `ROCm`, `TPU`, …"""
    environment: Mapping[str, Passage] = field(default_factory=dict)
    """Variables; a value that is not known (a secret) has `unknown` set."""
    role: str | None = None
    """`prefill` or `decode`, where they are apart."""
    files: Mapping[str, Passage] = field(default_factory=dict)
    """Contents of files that are mounted, by their path in the container."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundLaunch:
    """One launch as it was written, nothing worked out yet."""

    entry: EntryPoint
    words: tuple[Passage, ...]
    """What stands behind `vllm serve` or the module's name."""
    location: Location
    around: Surroundings
    offline: bool = False
    """Whether Python's `LLM(…)` starts the engine rather than the server."""
    wrapper: str | None = None
    """A program with a larger command line that hands these words on to vLLM (`dynamo.vllm`)."""


Found = FoundLaunch | Unreadable
