"""The names that `--attention-backend` takes: the members of `AttentionBackendEnum`."""

from __future__ import annotations

import ast
from typing import Any

from kvplan.engine.checks import backend_names
from kvplan.releases import Release
from tests.upstream.evaluate import ClassRef, Evaluator
from tests.upstream.facts import Facts, Subject
from tests.upstream.sources import Moved, Sources

PLACE = "v1/attention/backends/registry.py"


def _members(sources: Sources, evaluator: Evaluator) -> dict[str, str]:
    """Name by name: the class's dotted name, empty where there is none."""
    found = evaluator.constant(sources.first(PLACE, "attention/backends/registry.py"), "AttentionBackendEnum")
    if not isinstance(found, ClassRef):
        raise Moved(f"{PLACE} has no AttentionBackendEnum: `attention_backends` must learn the new place")
    values = found.names
    return {
        name: evaluator.value(node, found.module) or ""
        for name, node in values.items()
        if name.isupper() and isinstance(node, ast.AST)
    }


def backend_classes(sources: Sources, evaluator: Evaluator) -> dict[str, ClassRef]:
    """Name by name: the backend's class."""
    found: dict[str, ClassRef] = {}
    for name, dotted in _members(sources, evaluator).items():
        place, _, class_name = dotted.rpartition(".")
        module = sources.dotted(place)
        owner = None if module is None else evaluator.constant(module, class_name)
        if isinstance(owner, ClassRef):
            found[name] = owner
    return found


def read(sources: Sources) -> Facts:
    """Name by name: true."""
    return dict.fromkeys(_members(sources, Evaluator(sources)), True)


def told(release: Release) -> Facts:
    """What kvplan accepts."""
    return dict.fromkeys(backend_names.known(release), True)


def row(name: str, value: Any, since: str) -> str:
    """A row of kvplan's table."""
    return f'("{name}", Span(since="{since}")),'


SUBJECT = Subject(
    name="attention_backends",
    table="engine/checks/backend_names.py _NAMES; a backend of CUDA also in engine/backends/",
    read=read,
    told=told,
    row=row,
)
