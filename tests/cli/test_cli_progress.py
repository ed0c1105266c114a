"""Progress is told to those who watch, and not more often than they can read."""

from __future__ import annotations

import pytest

from kvplan.cli import progress
from kvplan.runs.progress import Part, Progress, nobody


def test_nobody_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: False)
    assert progress.teller() is nobody


def test_lines_come_when_they_are_due(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    tell = progress.teller()
    for second in (1, 2, 3, 4, 5):
        now[0] = second
        tell(Progress(Part.COMBINATIONS, second, 5000))
    assert capsys.readouterr().err == (
        "kvplan: 2 of 5,000 combinations so far …\nkvplan: 4 of 5,000 combinations so far …\n"
    )


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (Progress(Part.FILES, 1200, 3000, 17), "1,200 of 3,000 files, 17 launches so far"),
        (Progress(Part.COMBINATIONS, 0, 2), "0 of 2 combinations so far"),
        (Progress(Part.STEPS, 0, 1), "0 of 1 steps explained so far"),
    ],
)
def test_words(told: Progress, words: str) -> None:
    assert progress.words(told) == words
