"""vLLM's own answers, one test a record (see compare.py for what agreement means)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvplan import checkpoint
from tests.golden import build, compare

CASES = [record for release in build.releases() for record in build.records(release) if "core" in record["sets"]]


@pytest.mark.parametrize("record", CASES, ids=[record["id"] for record in CASES])
def test_agrees_with_vllm(record: dict[str, Any], configs: Path, record_property: Any) -> None:
    loaded = checkpoint.load(str(configs / record["config"]), offline=True)
    found = compare.differences(record, compare.plan_of(record, loaded))
    right, total = compare.layers_that_agree(record, found)
    record_property("release", record["release"])
    record_property("layers", (right, total))
    assert not found, "\n".join(found[:20])
