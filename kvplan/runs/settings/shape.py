"""What a settings file may hold, as types. What its texts mean (releases, rules, patterns) is left to `reading`."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema


class Table(BaseModel):
    """One table of the file: its keys have hyphens, and it has no others."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        use_attribute_docstrings=True,
        alias_generator=lambda name: name.replace("_", "-"),
    )


def _size(value: Any) -> Any:
    return str(value) if type(value) is int else value


def _day(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return date.fromisoformat(value)
    except ValueError:
        raise ValueError(f"{value[:80]!r} is not a date: write expires = 2027-01-31") from None


Severity = Literal["error", "warning", "note"]
Size = Annotated[str, BeforeValidator(_size), WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "integer"}]})]
"""An amount of memory: a text such as `60GiB`, or a number of bytes."""
Day = Annotated[date, BeforeValidator(_day)]
"""A date of TOML's own, or a text such as `2027-01-31`."""


class Catalog(Table):
    """Models of the project's own."""

    directories: list[str] = []
    """Directories with NAME/config.json, ORGANISATION/NAME/config.json or NAME.json."""
    models: dict[str, str] = Field(default={}, examples=[{"/models/glm": "zai-org/GLM-5.2-FP8"}])
    """Names, or paths in containers, and the models that they stand for."""


class Scan(Table):
    """Which files `kvplan scan` looks at: patterns such as `deploy/**/*.yaml`, as seen from the settings file."""

    include: list[str] | None = None
    """The only files of directories that are looked at."""
    exclude: list[str] | None = None
    """Files that are never looked at."""


class Suppression(Table):
    """Findings that do not count, for a reason; with both a path and a model, both have to fit."""

    rule: str = Field(examples=["KV203"])
    """The code or name of one rule."""
    reason: str = Field(examples=["why this is all right"])
    """Why its findings are all right there."""
    path: str | None = Field(default=None, examples=["deploy/*.yaml"])
    """A pattern for the files that it is about."""
    model: str | None = Field(default=None, examples=["zai-org/GLM-*"])
    """A pattern for the names of the models that it is about."""
    expires: Day | None = Field(default=None, examples=["2027-01-31"])
    """The last day on which it holds."""


class SettingsFile(Table):
    """Settings of a project for kvplan: .kvplan.toml, kvplan.toml, or [tool.kvplan] of pyproject.toml."""

    vllm_version: str | None = Field(default=None, examples=["0.26.0"])
    """The vLLM release of launches that do not name theirs."""
    gpu: str | None = Field(default=None, examples=["h200:8"])
    """The GPU of launches that do not name theirs."""
    available_kv_memory: Size | None = Field(default=None, examples=["60GiB"])
    """Memory for the cache on each GPU."""
    select: list[str] | None = None
    """The only rules that speak: codes, beginnings of codes or names."""
    ignore: list[str] | None = None
    """Rules that do not speak."""
    fail_on: Severity | None = Field(default=None, examples=["error"])
    """The least severity that makes the exit code of check and scan 1."""
    severity: dict[str, Severity] = Field(default={}, examples=[{"KV203": "error"}])
    """Severities of rules, by code, beginning of codes or name; the longer one wins."""
    catalog: Catalog = Catalog()
    scan: Scan = Scan()
    suppress: list[Suppression] = []
    """Findings that do not count."""
