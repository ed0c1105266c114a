"""One question to vLLM itself, where the oracle's environment is there."""

from __future__ import annotations

import os

import pytest

from tests.golden import build
from tests.oracle import asking, places
from tests.oracle.condense import condensed
from tests.oracle.configs import opened
from tests.oracle.errors import OracleError
from tests.oracle.questions import of_line

RELEASE = "0.33.0"
CONFIG = "Qwen__Qwen3-8B"


def missing() -> str | None:
    """Why nothing can be asked here."""
    try:
        places.interpreter()
        places.sources(RELEASE)
    except OracleError as error:
        return str(error)
    return None


@pytest.mark.skipif(missing() is not None, reason=str(missing()))
def test_vllm_answers_as_it_did() -> None:
    record = next(one for one in build.records(RELEASE) if one["config"] == CONFIG and one["outcome"]["ok"])
    question = of_line(record)
    with opened(()) as configs:
        answer = asking.ask([question], configs, jobs=1)[question.id]
        made = condensed(question, answer, configs)
    assert os.environ.get("VLLM_PLUGINS") is None
    assert made == record
