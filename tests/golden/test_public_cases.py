"""Public reports with figures, made runnable: what vLLM's own start-up code answers to each, and, where the printed
figure is certain, what the reporter saw."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvplan.engine import Plan
from kvplan.engine.failures import PoolTooSmall
from kvplan.rules import run
from tests import asking
from tests.golden.compare import SAME_STAGE

LINES = (Path(__file__).parent / "public_cases.jsonl").read_text("utf-8").splitlines()
CASES = [json.loads(line) for line in LINES]
GIB = 1 << 30
AFTER_PLANNING = "cudagraph_sizes"
"""A stage behind those that a plan emulates: a rule tells that start-up stops there."""


def planned(case: dict[str, Any], configs: Path) -> Plan:
    return asking.planned(
        ["vllm", "serve", str(configs / case["config"]), *case.get("flags", ())],
        release=case["release"],
        gpu=case["gpu"],
        memory=case["available_bytes"],
        environment=case.get("env"),
    )


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_gives_vllms_answer(case: dict[str, Any], configs: Path) -> None:
    result, expect = planned(case, configs), case["expect"]
    error = result.error
    if expect["stage" if "stage" in expect else "outcome"] == AFTER_PLANNING:
        assert error is None
        assert any(expect["error_contains"] in finding.message for finding in run(result))
        return
    assert (error is None) == (expect["outcome"] == "ok"), error
    if error is not None and expect["stage"] in SAME_STAGE:
        assert error.stage in SAME_STAGE[expect["stage"]]
    capacity = result.capacity
    for field in ("num_blocks", "tokens"):
        if field in expect:
            assert capacity is not None
            assert getattr(capacity, field) == expect[field]
    if "max_concurrency" in expect:
        assert capacity is not None
        assert capacity.max_concurrency is not None
        assert f"{capacity.max_concurrency:.4f}" == f"{expect['max_concurrency']:.4f}"
    if "needed_gib" in expect:
        ((_, facts),) = result.failures(PoolTooSmall)
        assert round(facts.needed_bytes / GIB, 2) == expect["needed_gib"]
        assert facts.longest_request_tokens == expect["longest_request_tokens"]


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if case["agreement"] in ("exact", "within rounding") and case.get("printed")],
    ids=lambda case: case["id"],
)
def test_gives_the_figures_that_were_printed(case: dict[str, Any], configs: Path) -> None:
    printed, capacity = case["printed"], planned(case, configs).capacity
    exact = case["agreement"] == "exact"
    for field in ("num_blocks", "tokens"):
        if printed.get(field) is not None:
            assert capacity is not None
            # Memory is printed in GiB with two decimals: where that is all that is known, figures follow to 1 in 200.
            assert getattr(capacity, field) == pytest.approx(printed[field], rel=0 if exact else 0.005)
    if printed.get("longest") is not None:
        assert capacity is not None
        assert capacity.longest_request_tokens == pytest.approx(printed["longest"], rel=0 if exact else 0.005)
