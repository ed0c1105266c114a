"""A sweep without a terminal: what its observer hears, and what it hands back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvplan.errors import InputError
from kvplan.runs.combining import combinations
from kvplan.runs.launching import LaunchRequest, Sources
from kvplan.runs.progress import Part, Progress
from kvplan.runs.sweeping import SweepRequest, sweep
from tests.small_config import SMALL_QWEN3

OFFLINE = Sources(offline=True)


def test_the_observer_hears_how_far_it_is() -> None:
    request = LaunchRequest(options=("Llama-3.1-8B",), vllm_version="0.32.0,0.33.0", gpu="h200", sources=OFFLINE)
    told: list[Progress] = []
    swept = sweep(SweepRequest(combinations=combinations(request), diff=True), told.append)
    assert told == [
        Progress(Part.COMBINATIONS, 0, 2),
        Progress(Part.COMBINATIONS, 1, 2),
        Progress(Part.STEPS, 0, 1),
    ]
    assert [row.report is not None for row in swept.report.rows] == [True, True]
    assert swept.notices == ()


def test_a_row_that_cannot_be_used_is_no_exception_unless_all_are() -> None:
    request = LaunchRequest(options=("Llama-3.1-8B",), gpu="h200,h2000", sources=OFFLINE)
    rows = sweep(SweepRequest(combinations=combinations(request))).report.rows
    assert [row.problem is None for row in rows] == [True, False]
    with pytest.raises(InputError, match="h2001"):
        sweep(SweepRequest(combinations=combinations(LaunchRequest(options=("Llama-3.1-8B",), gpu="h2001,h2000"))))


def test_remarks_on_drafts_come_back_once_and_go_with_a_refusal(tmp_path: Path) -> None:
    for name in ("target", "draft"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps(SMALL_QWEN3))
    config = '{"model": "/elsewhere/draft", "num_speculative_tokens": 2}'
    request = LaunchRequest(
        options=(str(tmp_path / "target"), "--speculative-config", config),
        vllm_version="0.32.0,0.33.0",
        sources=Sources(offline=True, beside=True),
    )
    swept = sweep(SweepRequest(combinations=combinations(request)))
    assert swept.notices == (
        f"the draft model /elsewhere/draft is not on this machine: reading {tmp_path / 'draft'} instead",
    )
    (tmp_path / "draft" / "config.json").unlink()
    with pytest.raises(InputError, match="the draft model") as raised:
        sweep(SweepRequest(combinations=combinations(request)))
    assert tuple(raised.value.__notes__) == swept.notices
