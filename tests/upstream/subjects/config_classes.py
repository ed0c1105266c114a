"""The model types that vLLM brings a config class for: `_CONFIG_REGISTRY`."""

from __future__ import annotations

import ast
from typing import Any

from kvplan.engine.checks import remote_code
from kvplan.releases import Release
from tests.upstream.facts import Facts, Subject
from tests.upstream.sources import Moved, Sources

PLACE = "transformers_utils/config.py"


def read(sources: Sources) -> Facts:
    """Model type by model type: the true."""
    found = sources.first(PLACE).names.get("_CONFIG_REGISTRY")
    match found:
        case ast.Call(keywords=keywords):
            named = {keyword.arg: True for keyword in keywords if keyword.arg is not None}
            spread = [keyword.value for keyword in keywords if isinstance(keyword.value, ast.Dict)]
            return named | {ast.literal_eval(key): True for one in spread for key in one.keys if key is not None}
        case _:
            raise Moved(f"{PLACE} has no _CONFIG_REGISTRY: `config_classes` must learn the new place")


def told(release: Release) -> Facts:
    """kvplan's table."""
    return {name: True for name, span in remote_code.CLASSES_OF_VLLM.items() if release.within(span)}


def row(name: str, value: Any, since: str) -> str:
    """A row of kvplan's table."""
    return f'"{name}": Span(since="{since}"),'


SUBJECT = Subject(
    name="config_classes", table="engine/checks/remote_code.py CLASSES_OF_VLLM", read=read, told=told, row=row
)
