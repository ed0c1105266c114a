"""The `kvplan-scan/1` contract as types: many `kvplan/1` objects, each with where its launch was found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from kvplan.report.schema import LaunchOptions, Location, Option, Part, PlanReport, opened

SCHEMA_FILE = Path(__file__).with_name("kvplan-scan-1.schema.json")


class PlacedOption(Option):
    """An option that somebody set, and where."""

    location: Location | None


class PlacedLaunchOptions(LaunchOptions):
    """What was asked for, with places."""

    options: dict[str, PlacedOption]  # type: ignore[assignment]


class Found(Part):
    """Where a launch was found, and what stands around it."""

    location: Location
    kind: str
    """What holds the launch: `Deployment`, `compose service`, `shell`, …"""
    name: str
    role: Literal["prefill", "decode"] | None
    entry: str
    """The front door that its words are for."""
    wrapper: str | None
    """A program that hands the words on to the engine."""
    release_given: str | None
    """The release as the file names it; null where one was assumed or given beside the file."""
    gpu_given: str | None
    gpus_given: int | None


class ScannedLaunch(PlanReport):
    """One launch."""

    launch: PlacedLaunchOptions
    found: Found


class Unreadable(Part):
    """A file, or a launch in it, that could not be followed."""

    file: str
    location: Location | None
    reason: str
    rule: str
    severity: Literal["error", "warning", "note"]


class Reason(Part):
    """Why something does not count."""

    reason: str
    by: Literal["comment", "settings", "baseline"]
    where: str


class SuppressedUnreadable(Unreadable):
    """The same, where somebody let it be."""

    suppressed: Reason


class Stale(Part):
    """A comment, an entry of the settings file or of the baseline that is to suppress findings of which there are none
    any more."""

    rule: str
    where: str
    text: str


class ScanReport(Part):
    """What vLLM will do with the KV cache for every launch in some files."""

    schema_: Literal["kvplan-scan/1"] = Field(alias="schema")
    launches: list[ScannedLaunch]
    unreadable: list[Unreadable]
    suppressed_unreadable: list[SuppressedUnreadable]
    stale: list[Stale]
    files: int
    """Files that were looked through."""
    suppressed_count: int = Field(ge=0)
    """Findings of all launches, and launches that could not be followed, that were let be with a reason."""
    verdict: Literal["ok", "note", "warning", "error"]
    """The worst verdict of a launch, and severity of what could not be followed."""


def build() -> dict[str, Any]:
    """The JSON Schema of the contract."""
    schema = opened(ScanReport.model_json_schema(by_alias=True))
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "kvplan-scan-1.schema.json", **schema}


def text() -> str:
    """The JSON Schema as the file holds it."""
    return json.dumps(build(), indent=2) + "\n"
