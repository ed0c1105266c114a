"""What is kept and made from the rest is current, and the command that makes it does as it says.

Shown outputs and rules.md have tests beside the pages, the scan's text and the conformance table beside theirs.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import regenerate
from tests.regenerate import Part


def test_schemas_are_current(capsys: pytest.CaptureFixture[str]) -> None:
    assert regenerate.main(["--check", "schemas"]) == 0
    assert capsys.readouterr().out == ""


def test_what_is_not_current_is_told_and_then_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, same = tmp_path / "old.txt", tmp_path / "same.bin"
    old.write_text("before\n")
    same.write_bytes(b"\0")
    parts = {
        "one": Part("", lambda: {old: "after\n", same: b"\0"}),
        "long": Part("", lambda: {tmp_path / "long": "made\n"}, by_default=False),
    }
    monkeypatch.setattr(regenerate, "ROOT", tmp_path)
    monkeypatch.setattr(regenerate, "PARTS", parts)
    assert regenerate.main(["--check"]) == 1
    assert capsys.readouterr().out == "old.txt is not current\n"
    assert old.read_text() == "before\n"
    assert regenerate.main([]) == 0
    assert capsys.readouterr().out == "old.txt written\n"
    assert old.read_text() == "after\n"
    assert regenerate.main(["--check"]) == 0
    assert regenerate.main(["long"]) == 0
    assert (tmp_path / "long").read_text() == "made\n"


def test_an_unknown_part_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        regenerate.main(["rulez"])
    assert ended.value.code == 2
    assert "no part is called 'rulez'" in capsys.readouterr().err
