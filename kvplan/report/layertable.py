"""The table of layer runs, in as many columns as there is room for."""

from __future__ import annotations

from collections.abc import Sequence

from kvplan.engine.values import Plan
from kvplan.report.page import Page
from kvplan.report.runs import Run, fold
from kvplan.report.words import layer_list, layers_named
from kvplan.words import counted, number

_RIGHT = frozenset({"KV heads", "block", "page B", "B/token"})
_DISPENSABLE = ("KV heads", "spec", "B/token", "backend", "quant mode")
"""What a narrow terminal goes without, first to last; the backends are then listed under the table."""


def layers(page: Page, plan: Plan) -> None:
    """The cached layers as runs of equal ones, and those without a cache of their own."""
    runs = fold(plan.layers)
    if not runs:
        return
    page.heading("Layers", f"{counted(len(plan.layers), 'cache')}, bytes of one layer on one GPU")
    columns = cells(runs)
    chosen = page.fitting(columns, _DISPENSABLE)
    page.table(tuple(chosen), zip(*chosen.values(), strict=True), right=_RIGHT)
    if "backend" in columns and "backend" not in chosen:
        page.pairs([("backends", _backends_by_run(runs))])
    stages = _stages(plan)
    if len(stages) > 1:
        page.pairs([("pipeline stages", "; ".join(stages))])
    if plan.shared:
        sharing = layers_named(layer.index for layer in plan.shared)
        page.pairs([("no cache of their own", f"{sharing}: they use that of another layer")])


def _stages(plan: Plan) -> list[str]:
    """The layers of each pipeline stage: `0-39`, `40-79`."""
    indices: dict[int, list[int]] = {}
    for layer in plan.layers:
        indices.setdefault(layer.rank, []).append(layer.index)
    return [layer_list(indices[rank]) for rank in sorted(indices)]


def cells(runs: Sequence[Run]) -> dict[str, list[str]]:
    """The cells by heading; columns with nothing in them are left out."""
    columns = {
        "layers": [run.label for run in runs],
        "dtype": [run.dtype for run in runs],
        "quant mode": [run.like.quant_mode or "" for run in runs],
        "backend": [run.like.backend or "" for run in runs],
        "spec": [run.like.spec for run in runs],
        "KV heads": [run.heads for run in runs],
        "block": [str(run.like.block_size) for run in runs],
        "page B": [number(run.like.page_bytes) for run in runs],
        "B/token": [number(run.like.bytes_per_token, 2) if run.like.bytes_per_token else "" for run in runs],
        "": [", ".join(run.notes) for run in runs],
    }
    return {heading: column for heading, column in columns.items() if any(column)}


def _backends_by_run(runs: Sequence[Run]) -> str:
    """The backends of a table that has no room for their column: `FLASHMLA_SPARSE (2-77)`."""
    users: dict[str, list[str]] = {}
    for run in runs:
        if run.like.backend:
            users.setdefault(run.like.backend, []).append(run.label)
    if len(users) == 1:
        return "".join(users)
    return ", ".join(f"{backend} ({'; '.join(labels)})" for backend, labels in users.items())
