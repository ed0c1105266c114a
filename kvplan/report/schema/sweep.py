"""The `kvplan-sweep/1` contract as types: one row a combination of values, and what changes between rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from kvplan.report.schema import Part, opened

SCHEMA_FILE = Path(__file__).with_name("kvplan-sweep-1.schema.json")

Value = str | int | float | list[str] | list[int] | None


class Axis(Part):
    """An option that varies."""

    option: str
    values: list[str]


class Values(Part):
    """What comes of a combination; null where it is unknown or start-up stopped before."""

    outcome: str
    """`starts`, or the stage and the check at which start-up stops."""
    findings: list[str]
    """Rules with warnings and errors."""
    cache_dtype: str | None
    layer_dtypes: list[str]
    backends: list[str]
    block_size: int | None
    page_bytes: list[int]
    """The sizes of the layers' pages, each once."""
    bytes_per_block: int | None
    max_model_len: int | None
    max_num_batched_tokens: int | None
    num_blocks: int | None
    tokens: int | None
    max_concurrency: float | None
    longest_request_tokens: int | None
    needed_bytes: int | None


class Combination(Part):
    """One combination. With a `problem` all but `options` are null."""

    options: dict[str, str]
    model: str | None
    release: str | None
    gpu: str | None
    available_bytes: int | None
    estimated: bool
    """Whether `available_bytes` is an estimate, on the high side, and with it all that follows from it."""
    verdict: Literal["ok", "note", "warning", "error"] | None
    problem: str | None
    """Why kvplan cannot use this combination."""
    exact: bool | None
    values: Values | None


class Change(Part):
    """A value that differs between two rows."""

    value: str
    before: Value
    after: Value
    explained: Literal["alone", "together", "partly", "not", "option"]
    """`alone`: each cause by itself turns the old value into the new one; `together`: all at once do; `partly`: they
    change it, but not to the new one; `not`: no history entry accounts for it; `option`: it is no change of release.
    """
    causes: list[str]
    """Keys of the report's `causes`."""


class Comparison(Part):
    """From one row to the next that differs from it in one option only."""

    before: int
    """Position among the rows, from 0."""
    after: int
    option: str
    problem: str | None
    """Why there is nothing to compare."""
    changes: list[Change]


class Cause(Part):
    """A history entry behind a change."""

    summary: str
    since: str | None
    until: str | None
    reference: str | None
    where: str | None


class SweepReport(Part):
    """What vLLM will do with the KV cache for every combination of some options' values."""

    schema_: Literal["kvplan-sweep/1"] = Field(alias="schema")
    axes: list[Axis]
    rows: list[Combination]
    steps: list[Comparison] | None
    """Null unless differences were asked for."""
    causes: dict[str, Cause]
    verdict: Literal["ok", "note", "warning", "error"]


def build() -> dict[str, Any]:
    """The JSON Schema of the contract."""
    schema = opened(SweepReport.model_json_schema(by_alias=True))
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "kvplan-sweep-1.schema.json", **schema}


def text() -> str:
    """The JSON Schema as the file holds it."""
    return json.dumps(build(), indent=2) + "\n"
