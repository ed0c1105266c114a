"""What a launch names that only the machine knows: told, and the plan is not exact."""

from __future__ import annotations

import pytest

from kvplan.rules import run
from tests.asking import planned

QWEN = "vllm serve Qwen/Qwen3-32B"
MODULE = '\'{"kv_connector": "Own", "kv_role": "kv_both", "kv_connector_module_path": "my.module"}\''
PROPOSER = '\'{"method": "custom_class", "model": "my.module.Proposer", "num_speculative_tokens": 2}\''


@pytest.mark.parametrize(
    ("command", "option"),
    [
        (f"{QWEN} --worker-cls my.Worker", "--worker-cls"),
        (f"{QWEN} --worker-extension-cls my.Extension", "--worker-extension-cls"),
        (f"{QWEN} --scheduler-cls my.Scheduler", "--scheduler-cls"),
        (f"{QWEN} --revision v2", "--revision"),
        (f"{QWEN} --kv-transfer-config {MODULE}", "--kv-transfer-config"),
        (f"{QWEN} --speculative-config {PROPOSER}", "--speculative-config"),
        (f"VLLM_PLUGINS=mine {QWEN}", "VLLM_PLUGINS"),
    ],
)
def test_what_only_the_machine_knows_is_told(command: str, option: str) -> None:
    plan = planned(command, memory="40GiB", gpu="h200")
    assert not plan.exact
    assert [finding.options for finding in run(plan) if finding.rule == "KV914"] == [(option,)]


@pytest.mark.parametrize("flags", ["", "--worker-cls auto", "--distributed-executor-backend mp"])
def test_vllm_s_own_is_looked_at(flags: str) -> None:
    plan = planned(f"{QWEN} {flags}", memory="40GiB", gpu="h200")
    assert plan.exact
    assert not any(finding.rule == "KV914" for finding in run(plan))
