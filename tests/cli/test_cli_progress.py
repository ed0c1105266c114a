"""Progress is told to those who watch, and not more often than they can read."""

from __future__ import annotations

import pytest

from kvplan.cli import progress
from kvplan.cli.launching import Asked
from kvplan.cli.sweeping import Sweeper, combinations
from kvplan.cli.words import Words
from kvplan.report.values import make


def test_nobody_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: False)
    assert progress.teller() is None


def test_lines_come_when_they_are_due(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    tell = progress.teller()
    assert tell is not None
    for second in (1, 2, 3, 4.5):
        now[0] = second
        tell(f"{second} of 5")
    assert capsys.readouterr().err == "kvplan: 2 of 5 …\nkvplan: 4.5 of 5 …\n"


def test_a_sweep_tells_how_far_it_is() -> None:
    question = Asked(
        words=Words(("Llama-3.1-8B",), None),
        own_flags=(),
        vllm_version="0.32.0,0.33.0",
        gpu="h200",
        available_kv_memory=None,
        env=(),
        offline=True,
        weights=None,
    )
    told: list[str] = []
    sweeper = Sweeper(lambda plan: make(plan, ()), offline=True)
    sweeper.sweep(combinations(question), diff=True, progress=told.append)
    assert told == ["0 of 2 combinations so far", "1 of 2 combinations so far", "0 of 1 steps explained so far"]
