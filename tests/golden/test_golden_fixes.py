"""What is proposed for launches that vLLM refuses was planned: typed into the command line, it does what it says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvplan import checkpoint
from kvplan.engine import Plan
from kvplan.engine import plan as emulate
from kvplan.launch.build import from_command
from kvplan.launch.hardware import parse_gpu
from kvplan.releases import resolve
from kvplan.rules import Finding, Severity, run
from kvplan.runs.fixes.mending import mended
from tests.asking import retyped
from tests.golden import build, compare, test_public_cases

REFUSED = [one for release in build.releases() for one in build.records(release) if not one["outcome"]["ok"]]
EVERY = 16
"""One refusal of so many is searched, so that all releases and kinds have some."""
RECORDS = REFUSED[::EVERY]
REPORTED = [case for case in test_public_cases.CASES if case["expect"].get("outcome") != "ok"]


def errors(plan: Plan) -> set[str]:
    return {one.rule for one in run(plan) if one.severity is Severity.ERROR}


def hold(plan: Plan, findings: tuple[Finding, ...], gpu: str) -> None:
    """Every proposal, read from its words by the parser: its finding is gone and no new error is there."""
    before = {one.rule for one in findings if one.severity is Severity.ERROR}
    for finding in findings:
        for fix in finding.fixes:
            command, release, gpus = retyped(_words(plan), fix.words)
            launch = from_command(
                command,
                release=plan.release if release is None else resolve(release),
                hardware=parse_gpu(gpu if gpus is None else f"{gpu}:{gpus}"),
                available_kv_memory=plan.launch.available_kv_memory,
            )
            after = emulate(plan.checkpoint, launch, draft=plan.draft)
            told = f"{finding.rule}: {fix.words}"
            assert errors(after) <= before - {finding.rule}, told
            assert after.ok or before - {finding.rule}, told


def _words(plan: Plan) -> list[str]:
    """The launch as one would type it, variables first."""
    assert plan.launch.written is not None
    variables = (f"{name}={value}" for name, value in plan.launch.environment.items())
    return [*variables, "vllm", "serve", *(word.text for word in plan.launch.written.arguments)]


@pytest.mark.parametrize("record", RECORDS, ids=[record["id"] for record in RECORDS])
def test_what_mends_a_refused_launch(record: dict[str, Any], configs: Path) -> None:
    plan = compare.plan_of(record, checkpoint.load(str(configs / record["config"]), offline=True))
    hold(plan, mended(plan, run(plan)), record["gpu"])


@pytest.mark.parametrize("case", REPORTED, ids=[case["id"] for case in REPORTED])
def test_what_mends_a_reported_launch(case: dict[str, Any], configs: Path) -> None:
    plan = test_public_cases.planned(case, configs)
    hold(plan, mended(plan, run(plan)), case["gpu"])
