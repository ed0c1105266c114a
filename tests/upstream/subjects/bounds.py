"""The bounds of numbers that the config classes state (`Field(gt=…, ge=…, le=…, lt=…)`), by option."""

from __future__ import annotations

import ast
from typing import Any

from kvplan.engine.checks import bounds
from kvplan.releases import Release
from tests.upstream import classes
from tests.upstream.evaluate import ClassRef, Evaluator
from tests.upstream.facts import Facts, Subject
from tests.upstream.sources import Moved, Sources
from tests.upstream.subjects import options

CLASSES = (
    ("config/model.py", "ModelConfig"),
    ("config/cache.py", "CacheConfig"),
    ("config/parallel.py", "ParallelConfig"),
    ("config/scheduler.py", "SchedulerConfig"),
)
_SIDES = {"gt": "above", "ge": "least", "le": "most", "lt": "below"}


def read(sources: Sources) -> Facts:
    """Field by field, for fields that are options of the same name: `above`, `least`, `most`, `below`."""
    evaluator = Evaluator(sources)
    launched = options.read(sources)
    found: dict[str, Any] = {}
    for path, name in CLASSES:
        owner = evaluator.constant(sources.first(path), name)
        if not isinstance(owner, ClassRef):
            raise Moved(f"{path} has no {name}: `bounds` must learn the new place")
        for field in classes.fields(evaluator, owner).values():
            sides = _sides(evaluator, field)
            if sides and field.name in launched:
                found[field.name] = sides
    return found


def _sides(evaluator: Evaluator, field: classes.Field) -> dict[str, float]:
    calls = [field.default, *ast.walk(field.annotation)]
    return {
        _SIDES[keyword.arg]: float(evaluator.value(keyword.value, field.owner.module))
        for call in calls
        if isinstance(call, ast.Call) and ast.unparse(call.func).endswith("Field")
        for keyword in call.keywords
        if keyword.arg in _SIDES
    }


def told(release: Release) -> Facts:
    """kvplan's bounds."""
    rows = (
        *bounds.MODEL_BOUNDS,
        *bounds.CACHE_BOUNDS,
        *bounds.PARALLEL_BOUNDS,
        *bounds.SCHEDULER_BOUNDS,
        *bounds.BATCH_BOUNDS,
    )
    return {
        one.name: {side: float(value) for side in _SIDES.values() if (value := getattr(one, side)) is not None}
        for one in rows
        if release.within(one)
    }


def row(name: str, value: Any, since: str) -> str:
    """A row of kvplan's table."""
    return f'Bound("{name}", {", ".join(f"{side}={bound:g}" for side, bound in value.items())}, since="{since}"),'


SUBJECT = Subject(name="bounds", table="engine/checks/bounds.py", read=read, told=told, row=row)
