"""A report as JSON: the `kvplan/1` contract, whose fields are only ever added to.

`kvplan.report.schema` states the same contract as a JSON Schema; the two are tested against each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.engine.values import BackendChoice, BlockSizeStep, Capacity, LayerPlan, Plan, StartupError, Step
from kvplan.launch.values import Launch
from kvplan.releases import Behaviour
from kvplan.report.canvas import Canvas
from kvplan.report.fieldwise import JsonObject, plain, told
from kvplan.report.inert import dumps
from kvplan.report.textbook import textbook
from kvplan.report.trace import selected_steps
from kvplan.report.values import Detail, Report
from kvplan.rules.suppression import Suppressed
from kvplan.rules.values import Finding

SCHEMA_ID = "kvplan/1"

_SECRET_MARKS = ("KEY", "TOKEN", "SECRET", "PASSWORD")

_SETTINGS_TOLD_ELSEWHERE = frozenset(
    {
        "model_dtype",
        "requested_cache_dtype",
        "cache_dtype_after_load",
        "skip_tokens",
        "block_size",
        "tensor_parallel",
        "pipeline_parallel",
        "data_parallel",
        "decode_context_parallel",
        "prefill_context_parallel",
        "state_mode",
        "state_block_size",
        "speculative_method",
        "num_speculative_tokens",
        "draft_model",
        "draft_architecture",
        "draft_cache_dtype",
    }
)
_OF_A_STATE = frozenset({"state_shapes", "state_dtypes", "states_per_request"})


def render(report: Report, _canvas: Canvas | None = None) -> str:
    """The report as JSON text, with a newline at its end; JSON looks the same on every canvas."""
    return dumps(to_dict(report), indent=2) + "\n"


def to_dict(report: Report) -> JsonObject:
    """The report as JSON values, in the order of the contract."""
    plan = report.plan
    found: JsonObject = {
        "schema": SCHEMA_ID,
        "engine": {
            "name": "vllm",
            "release": plan.release.name,
            "acts_as": plan.release.acts_as,
            "beyond_known": plan.release.beyond_known,
        },
        "model": _model(plan),
        "hardware": _hardware(plan.launch),
        "parallel": _parallel(plan),
        "launch": _launch(plan.launch),
        "settings": _settings(plan),
        "cache": _cache(plan),
        "block_size_steps": [_step(step) for step in plan.block_size_steps],
        "backends": [_backend(choice) for choice in plan.backends],
        "layers": [_layer(layer) for layer in plan.layers],
        "shared_layers": [told(layer) for layer in plan.shared],
        "groups": [told(group) for group in plan.groups],
        "capacity": None if plan.capacity is None else _capacity(plan, plan.capacity),
        "startup": {
            "outcome": "ok" if plan.error is None else "error",
            "stage": None if plan.error is None else str(plan.error.stage),
            "error": None if plan.error is None else _error(plan.error),
            "later_errors": [_error(error) for error in plan.later_errors],
            "after_planning": [_error(error) for error in plan.after_planning],
            "starts": plan.ok,
        },
        "findings": [_finding(finding) for finding in report.findings],
        "suppressed": [_suppressed(one) for one in report.suppressed],
        "suppressed_count": len(report.suppressed),
        "verdict": str(report.verdict),
        "exact": plan.exact,
    }
    if report.detail is Detail.WHY:
        found["trace"] = [_step(step) for step in selected_steps(report)]
        found["attempts"] = [
            {"rule": finding.rule, **told(attempt)} for finding in report.findings for attempt in finding.attempts
        ]
    return found


def _model(plan: Plan) -> JsonObject:
    checkpoint, geometry = plan.checkpoint, plan.geometry
    return {
        "reference": checkpoint.reference,
        "name": checkpoint.name,
        "architecture": checkpoint.architectures[0] if checkpoint.architectures else None,
        "model_type": checkpoint.model_type,
        "source": str(checkpoint.source),
        "config_sha256": checkpoint.config_sha256,
        "path": checkpoint.path,
        "provenance": checkpoint.provenance,
        "incomplete": checkpoint.incomplete,
        "normalised_by": checkpoint.normalised_by,
        "weight_bytes": checkpoint.weight_bytes,
        "engine_class": None if geometry is None else geometry.architecture,
        "family": None if geometry is None else geometry.family,
        "decoder_layers": None if geometry is None else geometry.num_layers,
    }


def _hardware(launch: Launch) -> JsonObject:
    hardware = launch.hardware
    return {
        "gpu": hardware.name,
        "compute_capability": hardware.capability_text,
        "assumed": hardware.assumed,
        "device_name": hardware.device_name,
        "memory_bytes": hardware.memory_bytes,
        "count": hardware.count,
    }


def _parallel(plan: Plan) -> JsonObject:
    settings, launch = plan.settings, plan.launch
    if settings is not None:
        return {
            "tensor": settings.tensor_parallel,
            "pipeline": settings.pipeline_parallel,
            "data": settings.data_parallel,
            "decode_context": settings.decode_context_parallel,
            "prefill_context": settings.prefill_context_parallel,
        }
    return {
        "tensor": _asked(launch, "tensor_parallel_size"),
        "pipeline": _asked(launch, "pipeline_parallel_size"),
        "data": _asked(launch, "data_parallel_size"),
        "decode_context": _asked(launch, "decode_context_parallel_size"),
        "prefill_context": _asked(launch, "prefill_context_parallel_size"),
    }


def _asked(launch: Launch, name: str) -> int:
    """The parallel size that was asked for, where start-up never got to settle it."""
    value = launch.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else 1


def _launch(launch: Launch) -> JsonObject:
    """What was asked for. Environment values that look like credentials stay out of reports."""
    return {
        "literal": launch.literal,
        "options": {
            name: {"value": setting.value, "origin": str(setting.origin), "spelled": setting.spelled}
            for name, setting in launch.settings.items()
        },
        "environment": {
            name: value
            for name, value in launch.environment.items()
            if not any(mark in name.upper() for mark in _SECRET_MARKS)
        },
        "not_relevant": [option.partition("=")[0] for option in launch.accepted],
    }


def _settings(plan: Plan) -> JsonObject | None:
    settings = plan.settings
    if settings is None:
        return None
    states = speculation = None
    if settings.state_mode is not None:
        states = {"mode": settings.state_mode, "block_size": settings.state_block_size}
    if settings.speculative_method is not None:
        speculation = {
            "method": settings.speculative_method,
            "num_speculative_tokens": settings.num_speculative_tokens,
            "draft_model": settings.draft_model,
            "draft_architecture": settings.draft_architecture,
            "draft_cache_dtype": settings.draft_cache_dtype,
        }
    return told(
        settings,
        without=_SETTINGS_TOLD_ELSEWHERE,
        after={"kv_cache_layout": {"states": states, "speculation": speculation}},
    )


def _cache(plan: Plan) -> JsonObject:
    settings, skip = plan.settings, plan.skip
    requested = plan.launch.get("kv_cache_dtype") or "auto"
    return {
        "requested_dtype": str(requested) if settings is None else settings.requested_cache_dtype,
        "resolved_dtype": None if settings is None else settings.cache_dtype_after_load,
        "model_dtype": None if settings is None else settings.model_dtype,
        "block_size": None if settings is None else settings.block_size,
        "skip": told(skip),
    }


def _backend(choice: BackendChoice) -> JsonObject:
    rejected = [{"backend": name, "reasons": list(reasons)} for name, reasons in choice.rejected]
    return told(choice, without=frozenset({"rejected"}), after={"cache_dtype": {"rejected": rejected}})


def _layer(layer: LayerPlan) -> JsonObject:
    state = None
    if layer.state_shapes:
        state = {
            "shapes": plain(layer.state_shapes),
            "dtypes": list(layer.state_dtypes),
            "per_request": layer.states_per_request,
        }
    return told(
        layer,
        without=_OF_A_STATE,
        after={"unpadded_page_bytes": {"bytes_per_token": layer.bytes_per_token}, "skipped": {"state": state}},
    )


def _capacity(plan: Plan, capacity: Capacity) -> JsonObject:
    book = textbook(plan)
    return told(
        capacity,
        without=frozenset({"curve"}),
        after={
            "available_bytes": {"estimated": capacity.estimated},
            "unused_bytes": {"textbook": None if book is None else told(book)},
        },
    )


def _error(error: StartupError) -> JsonObject:
    return told(error, without=frozenset({"facts"}), after={"message": {"code": error.code}})


def _finding(finding: Finding) -> JsonObject:
    return told(finding, without=frozenset({"changes", "attempts"}))


def _suppressed(one: Suppressed) -> JsonObject:
    return {**_finding(one.finding), **told(one, without=frozenset({"finding"}))}


def _step(step: Step | BlockSizeStep) -> JsonObject:
    return {**told(step, without=frozenset({"behaviour"})), **_behind(step.behaviour)}


def _behind(behaviour: Behaviour | None) -> Mapping[str, Any]:
    """The history entry behind a value, as its name and reference."""
    return {
        "behaviour": None if behaviour is None else behaviour.name,
        "reference": None if behaviour is None else behaviour.reference,
    }
