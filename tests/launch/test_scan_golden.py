"""`kvplan scan` over the manifests beside this file, word for word.

`python -m tests.regenerate scan` writes what it says now; look at the difference.
"""

from __future__ import annotations

import pytest

from tests.asking import kvplan
from tests.scan_golden import GOLDEN, ROOT, told


def test_golden_output() -> None:
    assert told().splitlines() == GOLDEN.read_text(encoding="utf-8").splitlines()


def test_secrets_are_never_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    for form in ("text", "json"):
        told = kvplan("scan", "--offline", "--format", form, "tests/launch/manifests").output
        assert "NeverBePrinted" not in told
        assert "sk-" not in told.replace("task-", "")
