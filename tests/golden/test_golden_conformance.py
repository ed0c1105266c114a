"""vLLM's own answers, one test a record (see compare.py for what agreement means)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvplan import checkpoint
from tests.golden import build, compare, told_otherwise

CASES = [record for release in build.releases() for record in build.records(release)]

NOT_INSPECTED = "failed to be inspected"
"""What vLLM says where the module of a model class cannot be imported. It depends on the installed Transformers, not
on the model or the launch: these modules import names that later versions of Transformers dropped. kvplan plans them
as with a Transformers that has the names."""


def is_of_the_environment(record: dict[str, Any]) -> bool:
    """Whether the answer tells of the environment in which it was recorded."""
    return NOT_INSPECTED in record["outcome"].get("first_line", "")


@pytest.mark.parametrize("record", CASES, ids=[record["id"] for record in CASES])
def test_agrees_with_vllm(record: dict[str, Any], configs: Path, record_property: Any) -> None:
    loaded = checkpoint.load(str(configs / record["config"]), offline=True)
    found = compare.differences(record, compare.plan_of(record, loaded))
    if is_of_the_environment(record):
        assert [line.partition(":")[0] for line in found] in (["outcome"], ["stage"])
        return
    if told_otherwise.is_among(record):
        assert [line.partition(":")[0] for line in found] in (["exception"], ["message"])
        return
    record_property("release", record["release"])
    record_property("layers", compare.layers_that_agree(record, found))
    assert not found, "\n".join(found[:20])


def test_few_answers_are_of_the_environment() -> None:
    assert sum(map(is_of_the_environment, CASES)) <= 20


def test_words_are_let_off_only_where_there_are_records() -> None:
    named = [name for names in told_otherwise.RECORDS.values() for name in names]
    assert len(named) == len(set(named))
    assert set(named) <= {record["id"] for record in CASES}
