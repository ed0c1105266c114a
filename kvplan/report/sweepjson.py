"""A sweep as JSON: the `kvplan-sweep/1` contract."""

from __future__ import annotations

from kvplan.engine.values import Plan
from kvplan.report.canvas import Canvas
from kvplan.report.fieldwise import JsonObject, told
from kvplan.report.inert import dumps
from kvplan.report.sweepvalues import Change, Combination, Comparison, SweepReport

SCHEMA_ID = "kvplan-sweep/1"


def render(report: SweepReport, _canvas: Canvas | None = None) -> str:
    """The sweep as JSON text, with a newline at its end."""
    return dumps(to_dict(report), indent=2) + "\n"


def to_dict(report: SweepReport) -> JsonObject:
    """The sweep as JSON values, in the order of the contract."""
    return {
        "schema": SCHEMA_ID,
        "axes": [{"option": axis.name, "values": list(axis.values)} for axis in report.axes],
        "rows": [_row(row) for row in report.rows],
        "steps": None if report.steps is None else [_step(step) for step in report.steps],
        "causes": _causes(report),
        "verdict": str(report.verdict),
    }


def _row(row: Combination) -> JsonObject:
    plan = None if row.report is None else row.report.plan
    return {
        "options": dict(row.options),
        "model": None if plan is None else plan.checkpoint.name,
        "release": None if plan is None else plan.release.name,
        "gpu": None if plan is None else plan.launch.hardware.name,
        "available_bytes": None if plan is None else _available(plan),
        "estimated": plan is not None and plan.capacity is not None and plan.capacity.estimated,
        "verdict": None if row.report is None else str(row.report.verdict),
        "problem": row.problem,
        "exact": None if plan is None else plan.exact,
        "values": None if plan is None else dict(row.values),
    }


def _available(plan: Plan) -> int | None:
    return plan.launch.available_kv_memory if plan.capacity is None else plan.capacity.available_bytes


def _step(step: Comparison) -> JsonObject:
    return {
        "before": step.before,
        "after": step.after,
        "option": step.option,
        "problem": step.problem,
        "changes": [_change(change) for change in step.changes],
    }


def _change(change: Change) -> JsonObject:
    return {
        "value": change.name,
        "before": change.before,
        "after": change.after,
        "explained": str(change.explanation.explained),
        "causes": [cause.name for cause in change.explanation.causes],
    }


def _causes(report: SweepReport) -> JsonObject:
    """Every cause that a change names, once."""
    found = {
        cause.name: cause
        for step in report.steps or ()
        for change in step.changes
        for cause in change.explanation.causes
    }
    return {name: told(cause, without=frozenset({"name"})) for name, cause in found.items()}
