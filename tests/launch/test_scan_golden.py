"""`kvplan scan` over the manifests beside this file, word for word.

`KVPLAN_UPDATE_GOLDEN=1 pytest tests/launch/test_scan_golden.py` writes what it says now; look at the difference.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.asking import kvplan

HERE = Path(__file__).parent
GOLDEN = HERE / "scan.golden.txt"


def test_golden_output(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without KV901, which follows the coverage table rather than the files."""
    monkeypatch.chdir(HERE.parents[1])
    result = kvplan("scan", "--offline", "--ignore", "KV901", "tests/launch")
    assert result.exit_code == 1
    assert result.stderr == ""
    if os.environ.get("KVPLAN_UPDATE_GOLDEN"):
        GOLDEN.write_text(result.stdout, encoding="utf-8")
    assert result.stdout.splitlines() == GOLDEN.read_text(encoding="utf-8").splitlines()


def test_secrets_are_never_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(HERE.parents[1])
    for form in ("text", "json"):
        told = kvplan("scan", "--offline", "--format", form, "tests/launch").output
        assert "NeverBePrinted" not in told
        assert "sk-" not in told.replace("task-", "")
