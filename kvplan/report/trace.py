"""Which links of a plan's trace a question is about."""

from __future__ import annotations

from kvplan.engine.values import Plan, Stage, Step
from kvplan.errors import InputError
from kvplan.report.values import Report

_STAGES = {stage: place for place, stage in enumerate(Stage)}


def selected_steps(report: Report) -> tuple[Step, ...]:
    """The steps about the report's layer and value, in the order of start-up's stages.

    Steps about the whole launch lead to every layer's values, so a question about one layer keeps them.
    """
    steps = (
        step
        for step in report.plan.trace
        if (report.layer is None or not step.layers or report.layer in step.layers)
        and (report.value is None or _is_about(step.value, report.value))
    )
    return tuple(sorted(steps, key=lambda step: _STAGES[step.stage]))


def check_question(plan: Plan, layer: int | None, value: str | None) -> None:
    """Raises InputError when the plan has no such layer, or its trace no such value."""
    if layer is not None and plan.geometry is not None and not 0 <= layer < plan.geometry.num_layers:
        last = plan.geometry.num_layers - 1
        raise InputError(f"--layer {layer}: {plan.checkpoint.name} has decoder layers 0 to {last}")
    if value is not None and not any(_is_about(step.value, value) for step in plan.trace):
        known = ", ".join(sorted({step.value for step in plan.trace}))
        raise InputError(f"--value {value}: the trace has no such value; it has {known or 'no values at all'}")


def _is_about(name: str, asked: str) -> bool:
    """Whether the dotted `name` is the one asked for: in full, by one of its parts (`backend`, `layer`), or with
    underscores for dots: `cache_dtype` is `cache.dtype` of the launch as well as `layer.cache_dtype`."""
    wanted = asked.lower().replace("-", "_")
    return wanted in (name, name.replace(".", "_")) or wanted in name.split(".")
