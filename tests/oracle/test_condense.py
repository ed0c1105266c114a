"""Records made of answers: real answers beside the golden records that were made of them long before."""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any

import pytest

from tests.oracle import summary
from tests.oracle.condense import condensed, own_failure
from tests.oracle.configs import Configs
from tests.oracle.questions import of_line

ANSWERS = Path(__file__).parent / "answers.jsonl.xz"
"""Lines of `answer` and `record`; the models lie in /models."""
PAIRS = [json.loads(line) for line in lzma.decompress(ANSWERS.read_bytes()).splitlines()]
CONFIGS = Configs((Path("/models"),))


def made(pair: dict[str, Any]) -> dict[str, Any]:
    return condensed(of_line(pair["record"]), pair["answer"], CONFIGS)


@pytest.mark.parametrize("pair", PAIRS, ids=[pair["record"]["id"] for pair in PAIRS])
def test_the_record_is_made_anew(pair: dict[str, Any]) -> None:
    assert made(pair) == pair["record"]


def test_the_answers_are_of_many_kinds() -> None:
    records = [pair["record"] for pair in PAIRS]
    assert {record["outcome"].get("stage") for record in records} >= {None, "create_engine_config", "kv_cache_view"}
    assert {"ranks", "shares_cache_of", "env", "platform"} <= {key for record in records for key in record}
    assert {"is_draft", "shapes"} <= {key for record in records for kind in record["layers"] for key in kind}


def test_no_answer_here_is_the_oracles_own() -> None:
    assert [own_failure(pair["answer"]) for pair in PAIRS] == [None] * len(PAIRS)


def error(**more: str) -> dict[str, Any]:
    told = {"stage": "load_model", "type": "ValueError", "message": "no", "raised_in": "vllm/platforms/cuda.py:1 in f"}
    told |= more
    return {"exception": {**told, "first_line": told["message"].split("\n")[0], "where": "vllm/worker.py:7 in load"}}


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({"oracle_failure": "ended with status 14"}, "ended with status 14"),
        (error(stage="import", message="x"), "import: ValueError: x"),
        (error(stage="init_distributed"), "init_distributed: ValueError: no"),
        (error(message="No module named 'mooncake'"), "load_model: ValueError: No module named 'mooncake'"),
        (error(message="got <Stub torch.ops._C.f> here"), "load_model: ValueError: got <Stub torch.ops._C.f> here"),
        (error(message="m does not appear to have a file named x.py"), "load_model: ValueError: m does not appear to"),
        (error(message="pass the argument `trust_remote_code=True`"), None),
        (error(raised_in="/here/tests/oracle/inside/options.py:3 in configured"), "load_model: ValueError: no"),
        (error(raised_in="/here/tests/oracle/inside/stubs/devices.py:3 in __torch_function__"), None),
        (error(stage="args", raised_in="/here/tests/oracle/inside/options.py:3 in _refuse"), None),
        (error(), None),
        ({}, None),
    ],
)
def test_failures_of_the_oracles_own(answer: dict[str, Any], told: str | None) -> None:
    found = own_failure(answer)
    assert found == told if told is None or found is None else found.startswith(told)


@pytest.mark.parametrize(
    ("more", "outcome"),
    [
        (
            {"stage": "args", "type": "ArgError", "raised_in": "/here/tests/oracle/inside/options.py:3 in _refuse"},
            ("args", "ArgError", "no", "argument parser"),
        ),
        (
            {
                "type": "ValidationError",
                "message": "1 error\n  Value /models/m/x, bad \n",
                "raised_in": "/v/site-packages/a.py:1 in f",
            },
            ("load_model", "ValidationError", "1 error | Value m/x, bad", "a.py:1 in f"),
        ),
        (
            {
                "message": "first\nsecond",
                "raised_in": "/here/tests/oracle/inside/stubs/devices.py:3 in __torch_function__",
            },
            ("load_model", "ValueError", "first", "vllm/worker.py:7 in load"),
        ),
    ],
)
def test_how_a_refusal_is_told(more: dict[str, str], outcome: tuple[str, ...]) -> None:
    base = {"device_capability": [9, 0], "config_sha256": "0"}
    asked = of_line({"release": "0.33.0", "gpu": "h200", "config": "m"})
    record = condensed(asked, {**base, **error(**more)}, CONFIGS)
    told = dict(zip(("stage", "type", "first_line", "raised_in"), outcome, strict=True))
    assert record["outcome"] == {"ok": False, **told}
    assert (record["resolved"], record["layers"], record["warnings"]) == ({}, [], [])


def test_warnings_about_the_cache_are_kept_once() -> None:
    log = [
        "WARNING: cache of /models/m is small",
        "INFO: cache",
        "WARNING: seed is 0",
        "WARNING: cache of /models/m is small",
    ]
    base = {"device_capability": [9, 4], "config_sha256": "0", "platform": "RocmPlatform", "log": log}
    record = condensed(of_line({"release": "0.33.0", "gpu": "mi300x", "config": "m"}), base, CONFIGS)
    assert record["warnings"] == ["WARNING: cache of {configs}/m is small"]
    assert (record["platform"], record["capability"]) == ("RocmPlatform", "9.4")


def test_a_person_reads_a_summary() -> None:
    (pair,) = [pair for pair in PAIRS if "ranks" in pair["record"]]
    told = list(summary.lines(pair["record"]))
    assert told[0] == "vLLM 0.33.0 on h200 (9.0): starts"
    assert told[1].startswith("model_runner V2, cache_dtype auto, block_size 16, kv_cache_layout LBNHC")
    assert told[2].startswith("20 × FullAttentionSpec, FLASH_ATTN, auto (bfloat16), block 16, page ")
    assert "blocks in groups of 20 | 20 layers" in told[4]
    assert told[5] == pair["record"]["log_lines"][0]


def test_a_refusal_is_the_summarys_first_line() -> None:
    (pair,) = [pair for pair in PAIRS if pair["record"]["outcome"].get("stage") == "create_engine_config"]
    (line,) = summary.lines(pair["record"])
    assert line.startswith(f"vLLM 0.33.0 on {pair['record']['gpu']}")
    assert "stops in create_engine_config with ValidationError: 1 validation error for " in line
