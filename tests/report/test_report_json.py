"""The JSON report keeps the kvplan/1 contract."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest

from kvplan.engine.values import Plan
from kvplan.launch.locations import Location
from kvplan.report.jsonreport import render, to_dict
from kvplan.report.schema import SCHEMA_FILE, PlanReport, build, text
from kvplan.report.values import Detail, make
from kvplan.rules.values import Finding, Severity

CONTRACT: dict[str, set[str]] = {
    "engine": {"name", "release"},
    "model": {"reference", "name", "architecture", "model_type", "source", "config_sha256"},
    "hardware": {"gpu", "compute_capability", "assumed"},
    "parallel": {"tensor", "pipeline", "data", "decode_context", "prefill_context"},
    "cache": {"requested_dtype", "resolved_dtype", "model_dtype", "block_size", "skip"},
    "capacity": {
        "available_bytes",
        "estimated",
        "bytes_per_block",
        "num_blocks",
        "tokens",
        "max_concurrency",
        "max_model_len",
        "longest_request_tokens",
        "needed_bytes",
    },
    "startup": {"outcome", "stage", "error"},
}
LAYER_FIELDS = {
    "name",
    "index",
    "role",
    "rank",
    "spec",
    "backend",
    "cache_dtype",
    "storage_dtype",
    "quant_mode",
    "block_size",
    "num_kv_heads",
    "head_size",
    "head_size_v",
    "sliding_window",
    "page_bytes",
    "unpadded_page_bytes",
    "bytes_per_token",
    "skipped",
}


def test_the_fields_of_the_design_are_there(good: Plan, make_finding: Callable[..., Finding]) -> None:
    told = to_dict(make(good, [make_finding()]))
    assert told["schema"] == "kvplan/1"
    for part, fields in CONTRACT.items():
        assert fields <= set(told[part]), part
    assert all(set(layer) >= LAYER_FIELDS for layer in told["layers"])
    assert {"layers", "spec", "block_size", "page_bytes"} <= set(told["groups"][0])
    assert {"tokens", "matched_layers", "unmatched_tokens"} <= set(told["cache"]["skip"])
    assert set(told["findings"][0]) == {
        "rule",
        "severity",
        "message",
        "layers",
        "options",
        "location",
        "fix",
        "fixes",
        "references",
    }


def test_worked_values(good: Plan) -> None:
    told = to_dict(make(good, []))
    first, second = told["layers"][0], told["layers"][1]
    assert (first["role"], first["page_bytes"], first["cache_dtype"]) == ("indexer", 16_896, None)
    assert (second["skipped"], second["page_bytes"], second["bytes_per_token"]) == (True, 147_456, 1152.0)
    assert told["layers"][-1]["bytes_per_token"] == 656.0
    assert told["cache"]["requested_dtype"] == "fp8"
    assert told["cache"]["resolved_dtype"] == "fp8_ds_mla"
    assert told["parallel"]["tensor"] == 8
    assert told["hardware"] == {
        "gpu": "h200",
        "compute_capability": "9.0",
        "assumed": True,
        "device_name": "NVIDIA H200",
        "memory_bytes": 150_754_820_096,
        "count": None,
    }
    assert len(told["groups"][0]["layers"]) == 99
    assert told["startup"] == {
        "outcome": "ok",
        "stage": None,
        "error": None,
        "later_errors": [],
        "after_planning": [],
        "starts": True,
    }
    assert told["verdict"] == "ok"


def test_a_failing_start_up_names_stage_and_error(failing: Plan) -> None:
    told = to_dict(make(failing, []))
    assert told["startup"]["outcome"] == "error"
    assert told["startup"]["stage"] == "kv_cache_view"
    assert told["startup"]["error"]["type"] == "RuntimeError"
    assert told["startup"]["error"]["message"].startswith("shape '[18662, 64, 576]'")
    assert told["verdict"] == "error"


def test_a_refused_launch_still_says_what_was_asked_for(refused: Plan) -> None:
    told = to_dict(make(refused, []))
    assert told["settings"] is None
    assert told["capacity"] is None
    assert told["cache"]["requested_dtype"] == "fp8"
    assert told["cache"]["resolved_dtype"] is None
    assert told["parallel"]["tensor"] == 8


def test_credentials_stay_out(good: Plan) -> None:
    told = render(make(good, []))
    assert "sesame" not in told
    assert json.loads(told)["launch"]["environment"] == {"VLLM_USE_V2_MODEL_RUNNER": "1"}
    assert json.loads(told)["launch"]["not_relevant"] == ["--api-key", "--port"]


def test_the_trace_is_only_told_when_asked_why(good: Plan) -> None:
    assert "trace" not in to_dict(make(good, []))
    trace = to_dict(make(good, [], detail=Detail.WHY, layer=0))["trace"]
    assert [step["value"] for step in trace] == ["cache.dtype", "layer.cache_dtype"]
    assert trace[1]["behaviour"] == "MLA_HONOURS_SKIP_LIST"


@pytest.mark.parametrize("detail", list(Detail))
@pytest.mark.parametrize("name", ["good", "failing", "refused"])
def test_every_report_satisfies_the_schema(
    name: str, detail: Detail, request: pytest.FixtureRequest, make_finding: Callable[..., Finding]
) -> None:
    plan: Plan = request.getfixturevalue(name)
    findings = [make_finding(), make_finding(Severity.ERROR, "KV601", location=Location("deploy.yaml", 12, 9))]
    told = render(make(plan, findings, detail=detail))
    PlanReport.model_validate_json(told)
    jsonschema.Draft202012Validator(_published()).validate(json.loads(told))


def test_the_published_schema_is_up_to_date() -> None:
    assert SCHEMA_FILE.read_text(encoding="utf-8") == text(), "run: python -m kvplan.report.schema"


def test_the_published_schema_is_a_schema_that_refuses() -> None:
    jsonschema.Draft202012Validator.check_schema(build())
    assert not jsonschema.Draft202012Validator(build()).is_valid({"schema": "kvplan/1"})


def test_readers_may_meet_fields_they_do_not_know(good: Plan) -> None:
    told = to_dict(make(good, []))
    told["later_addition"] = 1
    told["cache"]["later_addition"] = 1
    jsonschema.Draft202012Validator(_published()).validate(told)


def _published() -> dict[str, Any]:
    schema: dict[str, Any] = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
    return schema
