"""What stops vLLM once the cache is planned: the plan says both."""

from __future__ import annotations

import pytest

from kvplan.engine.values import Stage
from tests.asking import kvplan, planned, told

NEMOTRON = "vllm serve nvidia/Nemotron-H-56B-Base-8K -tp 8"
"""2 GiB hold 101 blocks of its states."""


def test_states_that_do_not_suffice_for_the_graphs() -> None:
    plan = planned(NEMOTRON, memory="2GiB")
    assert (plan.error, plan.ok) == (None, False)
    assert plan.stops_with is not None
    assert (plan.stops_with.stage, plan.stops_with.type) == (Stage.GRAPHS, "ValueError")
    assert plan.stops_with.message.startswith("max_num_seqs (1024) exceeds available Mamba cache blocks (101). Each")


@pytest.mark.parametrize("flags", ["--max-num-seqs 101", "--enforce-eager"])
def test_states_that_suffice(flags: str) -> None:
    assert planned(f"{NEMOTRON} {flags}", memory="2GiB").ok


def test_nothing_comes_after_a_start_that_plans_nothing() -> None:
    plan = planned(f"{NEMOTRON} --max-model-len 1000000", memory="2GiB")
    assert plan.error is not None
    assert plan.after_planning == ()


def test_context_parallelism_stops_at_the_builders_and_at_the_scheduler() -> None:
    plan = planned("vllm serve deepseek-ai/DeepSeek-V3.2 -tp 8 -dcp 8", release="0.25.1", memory="200GiB")
    assert [error.stage for error in plan.after_planning] == [Stage.BUILDERS]
    assert planned("vllm serve deepseek-ai/DeepSeek-V3 -tp 8 -dcp 8", release="0.25.1", memory="200GiB").ok


def test_report_headline_verdict_and_exit_codes_tell_it() -> None:
    words = ("--available-kv-memory", "2GiB", "--gpu", "h200:8", "--", *NEMOTRON.split())
    report = told("plan", *words)
    assert (report["startup"]["outcome"], report["startup"]["starts"], report["verdict"]) == ("ok", False, "error")
    assert [error["code"] for error in report["startup"]["after_planning"]] == ["states_too_few"]
    for command in ("plan", "check"):
        result = kvplan(command, *words)
        assert result.exit_code == 1
        assert "does not start on vLLM 0.33.0 (graphs)" in result.stdout
