"""A report as JSON: the `kvplan/1` contract, whose fields are only ever added to.

`kvplan.report.schema` states the same contract as a JSON Schema; the two are tested against each other.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kvplan.engine.values import (
    BackendChoice,
    Capacity,
    Group,
    KindShare,
    LayerPlan,
    MemoryEstimate,
    Plan,
    SharedLayer,
    StartupError,
    Step,
)
from kvplan.launch.values import Launch, Location
from kvplan.releases import Behaviour
from kvplan.report.canvas import Canvas
from kvplan.report.textbook import textbook
from kvplan.report.trace import selected_steps
from kvplan.report.values import Detail, Report
from kvplan.rules.suppression import Suppressed
from kvplan.rules.values import Finding

SCHEMA_ID = "kvplan/1"

_SECRET_MARKS = ("KEY", "TOKEN", "SECRET", "PASSWORD")

JsonObject = dict[str, Any]


def render(report: Report, _canvas: Canvas | None = None) -> str:
    """The report as JSON text, with a newline at its end; JSON looks the same on every canvas."""
    return json.dumps(to_dict(report), indent=2, default=str) + "\n"


def to_dict(report: Report) -> JsonObject:
    """The report as JSON values, in the order of the contract."""
    plan = report.plan
    told: JsonObject = {
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
        "block_size_steps": [
            {"block_size": step.block_size, "cause": step.cause, "text": step.text, **_behind(step.behaviour)}
            for step in plan.block_size_steps
        ],
        "backends": [_backend(choice) for choice in plan.backends],
        "layers": [_layer(layer) for layer in plan.layers],
        "shared_layers": [_shared(layer) for layer in plan.shared],
        "groups": [_group(group) for group in plan.groups],
        "capacity": None if plan.capacity is None else _capacity(plan, plan.capacity),
        "startup": {
            "outcome": "ok" if plan.error is None else "error",
            "stage": None if plan.error is None else str(plan.error.stage),
            "error": None if plan.error is None else _error(plan.error),
            "later_errors": [_error(error) for error in plan.later_errors],
        },
        "findings": [_finding(finding) for finding in report.findings],
        "suppressed": [_suppressed(one) for one in report.suppressed],
        "suppressed_count": len(report.suppressed),
        "verdict": str(report.verdict),
        "exact": plan.exact,
    }
    if report.detail is Detail.WHY:
        told["trace"] = [_step(step) for step in selected_steps(report)]
    return told


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
    return {
        "cache_dtype": settings.cache_dtype,
        "user_block_size": settings.user_block_size,
        "max_model_len": settings.max_model_len,
        "max_num_batched_tokens": settings.max_num_batched_tokens,
        "max_num_seqs": settings.max_num_seqs,
        "gpu_memory_utilization": settings.gpu_memory_utilization,
        "kv_cache_memory_bytes": settings.kv_cache_memory_bytes,
        "num_gpu_blocks_override": settings.num_gpu_blocks_override,
        "prefix_caching": settings.prefix_caching,
        "async_scheduling": settings.async_scheduling,
        "model_runner": settings.model_runner,
        "max_concurrent_batches": settings.max_concurrent_batches,
        "hybrid_manager_disabled": settings.hybrid_manager_disabled,
        "sliding_window": settings.sliding_window,
        "attention_backend": settings.attention_backend,
        "quantization": settings.quantization,
        "kv_cache_layout": settings.kv_cache_layout,
        "states": None
        if settings.state_mode is None
        else {"mode": settings.state_mode, "block_size": settings.state_block_size},
        "speculation": None
        if settings.speculative_method is None
        else {
            "method": settings.speculative_method,
            "num_speculative_tokens": settings.num_speculative_tokens,
            "draft_model": settings.draft_model,
            "draft_architecture": settings.draft_architecture,
            "draft_cache_dtype": settings.draft_cache_dtype,
        },
    }


def _cache(plan: Plan) -> JsonObject:
    settings, skip = plan.settings, plan.skip
    requested = plan.launch.get("kv_cache_dtype") or "auto"
    return {
        "requested_dtype": str(requested) if settings is None else settings.requested_cache_dtype,
        "resolved_dtype": None if settings is None else settings.cache_dtype_after_load,
        "model_dtype": None if settings is None else settings.model_dtype,
        "block_size": None if settings is None else settings.block_size,
        "skip": {
            "tokens": list(skip.tokens),
            "matched_layers": list(skip.matched_layers),
            "unmatched_tokens": list(skip.unmatched_tokens),
            "ignored_layers": list(skip.ignored_layers),
            "canonicalised_layers": list(skip.canonicalised_layers),
            "matched_drafts": list(skip.matched_drafts),
        },
    }


def _backend(choice: BackendChoice) -> JsonObject:
    return {
        "backend": choice.backend,
        "layers": list(choice.layers),
        "cache_dtype": choice.cache_dtype,
        "rejected": [{"backend": name, "reasons": list(reasons)} for name, reasons in choice.rejected],
        "precluded_by_block_size": list(choice.precluded_by_block_size),
        "dtypes_with_backend": list(choice.dtypes_with_backend),
        "draft": choice.draft,
    }


def _layer(layer: LayerPlan) -> JsonObject:
    return {
        "name": layer.name,
        "index": layer.index,
        "role": str(layer.role),
        "rank": layer.rank,
        "spec": layer.spec,
        "backend": layer.backend,
        "cache_dtype": layer.cache_dtype,
        "storage_dtype": layer.storage_dtype,
        "quant_mode": layer.quant_mode,
        "block_size": layer.block_size,
        "num_kv_heads": layer.num_kv_heads,
        "head_size": layer.head_size,
        "head_size_v": layer.head_size_v,
        "sliding_window": layer.sliding_window,
        "page_bytes": layer.page_bytes,
        "unpadded_page_bytes": layer.unpadded_page_bytes,
        "bytes_per_token": layer.bytes_per_token,
        "skipped": layer.skipped,
        "state": _state(layer),
        "layer_class": layer.layer_class,
        "spec_block_size": layer.spec_block_size,
        "spec_page_bytes": layer.spec_page_bytes,
        "covered": layer.covered,
    }


def _state(layer: LayerPlan) -> JsonObject | None:
    if not layer.state_shapes:
        return None
    return {
        "shapes": [list(shape) for shape in layer.state_shapes],
        "dtypes": list(layer.state_dtypes),
        "per_request": layer.states_per_request,
    }


def _shared(layer: SharedLayer) -> JsonObject:
    return {"name": layer.name, "index": layer.index, "shares_cache_of": layer.shares_cache_of}


def _group(group: Group) -> JsonObject:
    return {
        "layers": list(group.layers),
        "spec": group.spec,
        "block_size": group.block_size,
        "page_bytes": group.page_bytes,
        "kernel_block_size": group.kernel_block_size,
    }


def _capacity(plan: Plan, capacity: Capacity) -> JsonObject:
    book = textbook(plan)
    return {
        "available_bytes": capacity.available_bytes,
        "estimated": capacity.estimated,
        "estimate": None if capacity.estimate is None else _estimate(capacity.estimate),
        "bytes_per_block": capacity.bytes_per_block,
        "num_blocks": capacity.num_blocks,
        "tokens": capacity.tokens,
        "max_concurrency": capacity.max_concurrency,
        "max_model_len": capacity.max_model_len,
        "longest_request_tokens": capacity.longest_request_tokens,
        "needed_bytes": capacity.needed_bytes,
        "fixed_bytes": capacity.fixed_bytes,
        "bytes_per_token": capacity.bytes_per_token,
        "log_lines": list(capacity.log_lines),
        "lengths": [
            {"tokens": fit.tokens, "request_bytes": fit.request_bytes, "concurrency": fit.concurrency}
            for fit in capacity.lengths
        ],
        "kinds": [_kind(kind) for kind in capacity.kinds],
        "unused_bytes": capacity.unused_bytes,
        "textbook": None if book is None else {"bytes_per_token": book.bytes_per_token, "formula": book.formula},
    }


def _estimate(estimate: MemoryEstimate) -> JsonObject:
    return {
        "gpu_bytes": estimate.gpu_bytes,
        "budget_bytes": estimate.budget_bytes,
        "weight_bytes": estimate.weight_bytes,
    }


def _kind(kind: KindShare) -> JsonObject:
    return {
        "spec": kind.spec,
        "indexer": kind.indexer,
        "sliding_window": kind.sliding_window,
        "layers": kind.layers,
        "request_bytes": kind.request_bytes,
        "fixed_bytes": kind.fixed_bytes,
        "bytes_per_token": kind.bytes_per_token,
    }


def _error(error: StartupError) -> JsonObject:
    return {"stage": str(error.stage), "type": error.type, "message": error.message, "code": error.code}


def _finding(finding: Finding) -> JsonObject:
    return {
        "rule": finding.rule,
        "severity": str(finding.severity),
        "message": finding.message,
        "layers": list(finding.layers),
        "options": list(finding.options),
        "location": None if finding.location is None else _location(finding.location),
        "fix": finding.fix,
        "references": list(finding.references),
    }


def _suppressed(one: Suppressed) -> JsonObject:
    return {**_finding(one.finding), "reason": one.reason, "by": one.by, "where": one.where}


def _location(location: Location) -> JsonObject:
    return {"file": location.file, "line": location.line, "column": location.column}


def _step(step: Step) -> JsonObject:
    return {
        "stage": str(step.stage),
        "value": step.value,
        "result": step.result,
        "cause": step.cause,
        "layers": list(step.layers),
        "option": step.option,
        **_behind(step.behaviour),
    }


def _behind(behaviour: Behaviour | None) -> Mapping[str, Any]:
    """The history entry behind a value, as its name and reference."""
    return {
        "behaviour": None if behaviour is None else behaviour.name,
        "reference": None if behaviour is None else behaviour.reference,
    }
