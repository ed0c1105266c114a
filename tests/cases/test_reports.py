"""Public reports: what kvplan says of each is what was observed, or what its cause is.

`reports.json` holds one report a line: where it is, the launch, and what has to be found: the stage at which the start
ends (none: it starts), figures as they were printed, rules that tell of it, a part of vLLM's message.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from kvplan.engine.values import Plan
from kvplan.rules import run, run_pair
from tests.asking import planned

HERE = Path(__file__).parent
REPORTS: list[dict[str, Any]] = json.loads((HERE / "reports.json").read_text("utf-8"))
GLM = "GLM-5.3-Flash"
"""Not in the catalog: its config class gives all that its published config.json has."""


@pytest.fixture(scope="module")
def glm(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with the config of GLM-5.3-Flash."""
    folder = tmp_path_factory.mktemp("glm")
    with zipfile.ZipFile(HERE.parent / "golden" / "configs.zip") as configs:
        (folder / "config.json").write_bytes(configs.read("_defaults__glm5_next/config.json"))
    return str(folder)


def plan_of(report: dict[str, Any], glm: str) -> Plan:
    command = report["command"].replace(GLM, glm)
    return planned(
        command,
        release=report["release"],
        gpu=report["gpu"],
        memory=report.get("memory"),
        weights=report.get("weights"),
    )


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: str(report["id"]))
def test_what_was_reported_is_told(report: dict[str, Any], glm: str) -> None:
    plan, expected = plan_of(report, glm), report["expected"]
    assert (plan.stops_with.stage if plan.stops_with else None) == expected.get("stage")
    assert expected.get("message", "") in (plan.stops_with.message if plan.stops_with else "")
    assert set(expected.get("rules", ())) <= {finding.rule for finding in run(plan)}
    figures = expected.keys() & {"tokens", "blocks", "concurrency", "needed_gib", "longest"}
    capacity = plan.capacity
    assert capacity is not None or not figures
    if capacity is not None:
        found = {
            "tokens": capacity.tokens,
            "blocks": capacity.num_blocks,
            "concurrency": None if capacity.max_concurrency is None else round(capacity.max_concurrency, 2),
            "needed_gib": None if capacity.needed_bytes is None else round(capacity.needed_bytes / 2**30, 2),
            "longest": capacity.longest_request_tokens,
        }
        assert {name: found[name] for name in figures} == {name: expected[name] for name in figures}
    assert expected.get("block") in (None, *(group.block_size for group in plan.groups))


NIXL = """--kv-transfer-config '{"kv_connector": "NixlConnector", "kv_role": "kv_both"}'"""


@pytest.mark.parametrize(
    ("model", "release", "prefill", "decode"),
    [
        ("Qwen/Qwen3-32B", "0.21.0", 8, 16),  # vllm#45330, a model with 8 KV heads
        ("google/gemma-4-26B-A4B-it", "0.26.0", 2, 4),  # vllm#50765, 2 KV heads in its global layers
    ],
)
def test_a_pair_that_splits_its_heads_differently(model: str, release: str, prefill: int, decode: int) -> None:
    def side(ranks: int) -> Plan:
        return planned(f"vllm serve {model} -tp {ranks} {NIXL}", release=release, gpu=f"h200:{ranks}", memory="40GiB")

    assert "KV706" in {finding.rule for finding in run_pair(side(prefill), side(decode))}
    assert "KV706" not in {finding.rule for finding in run_pair(side(prefill), side(prefill))}
