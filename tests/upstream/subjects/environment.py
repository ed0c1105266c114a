"""vLLM's own environment variables: the `VLLM_…` of `environment_variables` in envs.py."""

from __future__ import annotations

import ast
import json
from importlib.resources import files
from typing import Any

from kvplan.launch import environment
from kvplan.releases import Release
from tests.upstream.facts import Facts, Subject
from tests.upstream.sources import Moved, Sources

PLACE = "envs.py"


def read(sources: Sources) -> Facts:
    """Variable by variable: true."""
    table = sources.first(PLACE).names.get("environment_variables")
    if not isinstance(table, ast.Dict):
        raise Moved(f"{PLACE} has no environment_variables: `environment` must learn the new place")
    names = [key.value for key in table.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]
    return {name: True for name in names if name.startswith("VLLM_")}


def told(release: Release) -> Facts:
    """The variables that kvplan takes as known to the release."""
    names = json.loads((files("kvplan.launch") / "data" / "environment.json").read_text("utf-8"))
    return {name: True for name in names if environment.knows(name, release)}


def row(name: str, value: Any, since: str) -> str:
    """A line of kvplan's file."""
    return f'"{name}": [["{since}", null]],'


SUBJECT = Subject(name="environment", table="launch/data/environment.json", read=read, told=told, row=row)
