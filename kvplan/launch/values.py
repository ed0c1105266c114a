"""What the launch room hands on: the operator's words, parsed as vLLM would parse them, nothing decided."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kvplan.launch.locations import Location, OriginKind
from kvplan.launch.written import Written
from kvplan.releases import Release


@dataclass(frozen=True, slots=True)
class Setting:
    """One option with its parsed value, and how it was written."""

    name: str
    """vLLM's field name with underscores, e.g. `kv_cache_dtype_skip_layers`."""
    value: Any
    origin: OriginKind = OriginKind.DEFAULT
    spelled: str | None = None
    """The flag as written (`-tp`, `--kv-cache-dtype`), for messages."""
    location: Location | None = None


PARSER_REFUSES = "ArgError"
"""The type of a refusal by vLLM's argument parser itself, which raises no class of its own to the outside: it prints
its usage and what it refuses, and ends the process with status 2."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """vLLM's command-line parser would stop here: what it says, and on which option."""

    option: str | None
    message: str
    exception: str = PARSER_REFUSES
    """Type of the exception that ends the start."""
    location: Location | None = None


@dataclass(frozen=True, slots=True)
class Remark:
    """Something about the way options were written that changes what they mean.

    `kind` is one of `unknown_option`, `removed_option`, `not_yet_option`, `repeated_option`,
    `positional_swallowed`, `comma_token`, `unknown_environment`, `abbreviated_option`, `suppression_unusable` (a
    comment beside the launch), `default_model` (none is named, vLLM takes its own), `positional_ignored` (the module
    form reads `--model` only), `config_not_read` (`--config=FILE` in one word), `model_read_from_folder` (a
    folder of the model's name was read).
    """

    kind: str
    option: str
    detail: str
    location: Location | None = None


@dataclass(frozen=True, slots=True)
class Hardware:
    """One kind of GPU and how many of them one engine may use."""

    name: str
    capability: tuple[int, int]
    memory_bytes: int
    """Total device memory in bytes, as CUDA reports it."""
    device_name: str
    """The name NVML reports, which vLLM's defaults look at (`a100` in it, for one)."""
    count: int | None = None
    assumed: bool = False

    @property
    def capability_text(self) -> str:
        """`9.0` style."""
        return f"{self.capability[0]}.{self.capability[1]}"


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch of vLLM: release, hardware, every option understood, and what was not.

    `settings` holds only options that somebody set; `default_of` in `kvplan.launch.options` knows the rest.
    """

    model: str | None
    release: Release
    hardware: Hardware
    settings: Mapping[str, Setting] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    """Environment variables given with the launch (never those of kvplan's own process)."""
    accepted: tuple[str, ...] = ()
    """Options that vLLM takes and that do not matter to the cache, as written."""
    refusals: tuple[Refusal, ...] = ()
    remarks: tuple[Remark, ...] = ()
    available_kv_memory: int | None = None
    """Bytes per GPU left for the cache, where the operator knows them."""
    literal: bool = False
    """Whether the options came from a literal vLLM command line."""
    written: Written | None = None
    """The words that it was read from, to read them again as another release does."""
    offline: bool = False
    """Whether Python's `LLM(…)` starts the engine, which takes more tokens a batch than the server by default."""

    def get(self, name: str) -> Any:
        """The value somebody gave for option `name` (underscores), or None."""
        setting = self.settings.get(name)
        return None if setting is None else setting.value
