"""A job comes through its file unchanged."""

from __future__ import annotations

from pathlib import Path

from tests.oracle import job
from tests.oracle.job import Case, Job


def test_written_and_read(tmp_path: Path) -> None:
    case = Case("/models/m", ("-tp", "8"), 1 << 30, "0.json", "0.log")
    written = Job("0.33.0", "/sources", "/home", "h200", {"VLLM_USE_V1": "1"}, 300, (case, case))
    written.write(tmp_path / "job.json")
    assert job.read(tmp_path / "job.json") == written
