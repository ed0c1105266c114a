"""The command line: what it refuses, and what needs no oracle environment."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.golden import build
from tests.oracle.commands import main

ASKED = {"id": "a", "release": "0.33.0", "gpu": "h200", "config": "Qwen__Qwen3-8B"}


@pytest.fixture(autouse=True)
def no_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_ORACLE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def run(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, words)
    return done.exit_code, done.output


@pytest.mark.parametrize("command", ["setup", "sources", "ask", "record", "drift"])
def test_every_command_has_help(command: str) -> None:
    code, told = run(command, "--help")
    assert code == 0
    assert "Usage:" in told


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("ask", "0.33.0", "Qwen__Qwen3-8B"), "make it with `python -m tests.oracle setup`"),
        (("ask", "newest", "Qwen__Qwen3-8B"), "release 'newest' is not a version"),
        (("ask", "0.33.0", "Qwen__Qwen3-8B", "--env", "A"), "--env 'A' is not NAME=VALUE"),
        (("ask", "0.33.0", "m", "--mem-gib", "1", "--available-bytes", "1"), "both 'available_bytes' and 'mem_gib'"),
        (("drift", "0.33.0"), "make it with `python -m tests.oracle setup`"),
        (("drift", "0.33.0", "--from", "0.1.0"), "no records of 0.1.0"),
    ],
)
def test_errors_are_one_line(words: tuple[str, ...], message: str) -> None:
    code, told = run(*words)
    assert code == 1
    assert message in told
    assert len(told.splitlines()) == 1


def test_bad_questions_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "asked.jsonl"
    file.write_text(json.dumps({**ASKED, "gpu": "tpu"}), encoding="utf-8")
    code, told = run("record", str(file), "made.jsonl.xz")
    assert code == 1
    assert "asked.jsonl:1: unknown GPU 'tpu'" in told


def test_records_are_not_written_over(tmp_path: Path) -> None:
    file = tmp_path / "asked.jsonl"
    file.write_text(json.dumps(ASKED), encoding="utf-8")
    code, told = run("record", str(file), str(file))
    assert code == 1
    assert "exists already" in told


def test_recorded_answers_are_compared_without_an_environment(tmp_path: Path) -> None:
    records = build.records("0.33.0")[:4]
    changed = {
        **records[0],
        "id": "changed",
        "outcome": {"ok": False, "stage": "args", "type": "E", "first_line": "no"},
    }
    build.write(tmp_path / "made.jsonl.xz", [*records, changed])
    code, told = run("drift", "0.33.0", "--records", "made.jsonl.xz", "--jobs", "1")
    assert code == 0
    assert told.splitlines()[0] == "made.jsonl.xz, kvplan as 0.33.0: 4 of 5 records agree"
    assert "start-up ends in args" in told
    assert "vLLM args: E: no" in told


def test_a_release_that_kvplan_does_not_know_is_held_against_its_newest(tmp_path: Path) -> None:
    build.write(tmp_path / "made.jsonl.xz", build.records("0.33.0")[:1])
    _, told = run("drift", "9.9.9", "--records", "made.jsonl.xz", "--jobs", "1")
    assert "kvplan as 0.33.0: 1 of 1 records agree" in told
