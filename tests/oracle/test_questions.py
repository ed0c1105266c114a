"""BackendQuestions: what a line may say, what is refused, which of them share an import of vLLM."""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any

import pytest

from tests.golden import build
from tests.oracle import questions
from tests.oracle.errors import OracleError
from tests.oracle.questions import DEFAULT_BYTES, Question, batches, of_line, of_records

PLAIN = {"release": "0.33.0", "gpu": "h200", "config": "Qwen__Qwen3-8B"}


def question(name: str, **more: Any) -> Question:
    return of_line({**PLAIN, "id": name, **more})


def test_a_line_may_be_short() -> None:
    asked = of_line(PLAIN)
    assert (asked.release, asked.gpu, asked.config) == ("0.33.0", "h200", "Qwen__Qwen3-8B")
    assert asked.available_bytes == DEFAULT_BYTES == 60 * 1024**3
    assert asked.id == "0.33.0/Qwen__Qwen3-8B--h200--plain"
    assert asked.sets == ("all",)


def test_memory_is_given_in_gib_or_in_bytes() -> None:
    assert question("a", mem_gib=1.5).available_bytes == 1_610_612_736
    assert question("a", available_bytes=-3).available_bytes == -3


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"gpu": "tpu"}, "unknown GPU 'tpu'; known: v100"),
        ({"release": "0.33"}, "release '0.33' is not a version"),
        ({"config": ""}, "no 'config'"),
        ({"flags": "-tp 8"}, "'flags' is not a list of strings"),
        ({"flags": ["-tp", 8]}, "'flags' is not a list of strings"),
        ({"env": {"VLLM_USE_V1": 1}}, "'env' is not an object of strings"),
        ({"flag": ["-tp"]}, "unknown key 'flag'"),
        ({"mem_gib": "60"}, "memory is not a number"),
        ({"mem_gib": 60, "available_bytes": 1}, "both 'available_bytes' and 'mem_gib'"),
    ],
)
def test_what_is_no_question_is_refused(more: dict[str, Any], message: str) -> None:
    with pytest.raises(OracleError, match=message.replace("[", r"\[")):
        of_line({**PLAIN, **more})


def test_a_golden_record_is_a_question() -> None:
    record = build.records("0.33.0")[0]
    asked = of_line(record)
    assert (asked.id, asked.available_bytes) == (record["id"], record["available_bytes"])
    assert list(asked.flags) == record["flags"]
    assert list(asked.sets) == record["sets"]


def test_records_are_asked_of_another_release() -> None:
    told = [{**PLAIN, "id": "fuzz/0.33.0/p-1", "outcome": {"ok": True}, "env": {"A": "1"}, "category": "realistic"}]
    (asked,) = of_records(told, "0.34.0")
    assert (asked.id, asked.release) == ("fuzz/0.34.0/p-1", "0.34.0")
    assert (dict(asked.environment), asked.category) == ({"A": "1"}, "realistic")


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.xz"])
def test_files_are_read(tmp_path: Path, suffix: str) -> None:
    text = f"{json.dumps({**PLAIN, 'id': 'a'})}\n\n{json.dumps({**PLAIN, 'id': 'b', 'flags': ['-tp', '8']})}\n"
    file = tmp_path / f"asked{suffix}"
    file.write_bytes(lzma.compress(text.encode()) if suffix.endswith("xz") else text.encode())
    assert [(asked.id, asked.flags) for asked in questions.read(file)] == [("a", ()), ("b", ("-tp", "8"))]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}\n", r"asked.jsonl:1: no 'release'"),
        (f"{json.dumps(PLAIN)}\n[1]\n", r"asked.jsonl:2: not a JSON object"),
        ("\nwhat\n", r"asked.jsonl:2: Expecting value"),
        (f"{json.dumps(PLAIN)}\n" * 2, "asked twice under one id: 0.33.0/Qwen__Qwen3-8B"),
    ],
)
def test_a_bad_line_is_told_with_its_number(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "asked.jsonl"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(OracleError, match=message):
        questions.read(file)


def test_questions_of_one_gpu_and_environment_share_an_import() -> None:
    asked = [
        question("a"),
        question("b", gpu="a100"),
        question("c", flags=["-tp", "2"], config="other"),
        question("d", env={"X": "1", "Y": "2"}),
        question("e", env={"Y": "2", "X": "1"}),
        question("f", release="0.32.0"),
    ]
    parts = [[one.id for one in part] for part in batches(asked, jobs=2)]
    assert parts == [["a", "c"], ["d", "e"], ["b"], ["f"]]


@pytest.mark.parametrize(
    ("count", "jobs", "sizes"),
    [(8, 4, [8]), (20, 2, [10, 10]), (20, 4, [8, 8, 4]), (3, 4, [3]), (100, 2, [50, 50])],
)
def test_large_groups_are_parted_among_the_processes(count: int, jobs: int, sizes: list[int]) -> None:
    asked = [question(str(number)) for number in range(count)]
    parts = list(batches(asked, jobs))
    assert [len(part) for part in parts] == sizes
    assert [one.id for part in parts for one in part] == [str(number) for number in range(count)]
