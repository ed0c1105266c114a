"""What stops vLLM once the cache is planned: the plan says both."""

from __future__ import annotations

import json
import shlex

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


def transferring(connector: str, **more: object) -> str:
    """A --kv-transfer-config that names the connector."""
    return "--kv-transfer-config " + shlex.quote(json.dumps({"kv_connector": connector, "kv_role": "kv_both", **more}))


def stops(command: str, release: str = "0.33.0", gpu: str = "h200:8") -> list[tuple[Stage, str, str]]:
    """What stops the launch behind planning; nothing may stop it before."""
    plan = planned(command, release=release, gpu=gpu, memory="60GiB")
    assert plan.error is None
    return [(error.stage, error.type, error.message) for error in plan.after_planning]


QWEN = "vllm serve Qwen/Qwen3-32B -tp 2"
NIXL = transferring("NixlConnector")


def test_a_connector_without_the_hybrid_manager_where_it_is_asked_for() -> None:
    launch = f"{QWEN} {transferring('LMCacheConnectorV1')}"
    ((stage, kind, message),) = stops(f"{launch} --no-disable-hybrid-kv-cache-manager")
    assert (stage, kind) == (Stage.CONNECTORS, "ValueError")
    assert message.startswith("Connector LMCacheConnectorV1 does not support HMA but HMA is enabled.")
    assert stops(launch) == []
    nixl = f"{QWEN} {NIXL} --no-disable-hybrid-kv-cache-manager"
    assert stops(nixl) == []
    assert [stage for stage, *_ in stops(nixl, "0.17.1")] == [Stage.CONNECTORS]


@pytest.mark.parametrize(("release", "count"), [("0.22.1", 0), ("0.23.0", 1), ("0.33.0", 1)])
def test_what_a_multi_connector_holds_counts_since_0_23(release: str, count: int) -> None:
    held = {"connectors": [{"kv_connector": "LMCacheConnectorV1", "kv_role": "kv_both"}]}
    multi = transferring("MultiConnector", kv_connector_extra_config=held)
    assert len(stops(f"{QWEN} {multi} --no-disable-hybrid-kv-cache-manager", release)) == count


def test_offloading_is_settled_behind_the_hybrid_manager_in_old_releases() -> None:
    assert len(stops(f"{QWEN} --kv-offloading-size 8", "0.19.1")) == 1
    assert stops(f"{QWEN} --kv-offloading-size 8 --disable-hybrid-kv-cache-manager", "0.19.1") == []
    assert stops(f"{QWEN} --kv-offloading-size 8", "0.33.0") == []


def test_nixl_looks_for_a_kernel_block_in_the_smallest_block() -> None:
    launch = f"vllm serve deepseek-ai/DeepSeek-V4-Flash --kv-cache-dtype fp8 --block-size 256 {NIXL}"
    assert stops(launch, "0.26.0", "b300") == [(Stage.CONNECTORS, "ValueError", "No common block size for 4")]
    assert stops(f"{QWEN} {NIXL}") == []


def test_flashinfer_does_not_plan_for_bytes() -> None:
    launch = "vllm serve zai-org/GLM-5.2 -tp 8 --attention-backend FLASHINFER_MLA_SPARSE_SM90 --kv-cache-dtype fp8"
    found = {release: stops(launch, release) for release in ("0.31.0", "0.32.0")}
    assert found["0.32.0"] == []
    assert [(stage, kind) for stage, kind, _ in found["0.31.0"]] == [(Stage.BUILDERS, "ValueError")]


@pytest.mark.parametrize(
    ("flags", "count"),
    [
        ("--attention-backend TRITON_ATTN --kv-cache-dtype fp8_e5m2", 1),
        ("--attention-backend TRITON_ATTN --kv-cache-dtype fp8", 0),
        ("--attention-backend TRITON_ATTN --kv-cache-dtype fp8_per_token_head", 0),
        ("--attention-backend FLASHINFER --kv-cache-dtype fp8_e5m2", 0),
    ],
)
def test_quantised_queries_want_e4m3(flags: str, count: int) -> None:
    found = stops(f"{QWEN} {flags}")
    assert found == [(Stage.FORWARD, "AssertionError", "")] * count
