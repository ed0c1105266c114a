"""How the other interpreter is called and its answers gathered; a small script stands in for it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.oracle import asking
from tests.oracle.configs import Configs
from tests.oracle.errors import OracleError
from tests.oracle.questions import Question, of_line

STAND_IN = """#!{python}
import json, os, sys
job = json.load(open(sys.argv[3]))
if job["gpu"] == "t4":
    sys.exit("ImportError: no such thing")
for number, case in enumerate(job["cases"]):
    if "--die" in case["flags"]:
        open(case["log"], "w").write("Traceback\\nMemoryError")
    else:
        told = {{"flags": case["flags"], "config": case["config"], "memory": case["available_bytes"], "gpu": job["gpu"],
                 "own": job["environment"], "seen": {{k: v for k, v in os.environ.items() if k.startswith("VLLM_")}}}}
        json.dump(told, open(case["answer"], "w"))
    print(json.dumps({{"case": number, "seconds": 0.1, "status": 0}}), flush=True)
"""


@pytest.fixture
def configs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Configs:
    """Two configs, an environment with the stand-in, sources of a release."""
    for name in ("model", "draft"):
        (tmp_path / "configs" / name).mkdir(parents=True)
        (tmp_path / "configs" / name / "config.json").write_text("{}", encoding="utf-8")
    python = tmp_path / "home/venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(STAND_IN.format(python=sys.executable), encoding="utf-8")
    python.chmod(0o755)
    (tmp_path / "home/ready").touch()
    (tmp_path / "sources/vllm-0.33.0/vllm").mkdir(parents=True)
    monkeypatch.setenv("VLLM_ORACLE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("VLLM_SOURCES", str(tmp_path / "sources"))
    monkeypatch.setenv("VLLM_OF_THE_SHELL", "1")
    return Configs((tmp_path / "configs",))


def question(name: str, **more: Any) -> Question:
    return of_line({"id": name, "release": "0.33.0", "gpu": "h200", "config": "model", **more})


def test_answers_come_back_by_id(configs: Configs) -> None:
    heard: list[str] = []
    asked = [
        question("a", flags=["--spec-model", "{configs}/draft"], available_bytes=5),
        question("b", gpu="a100", env={"VLLM_USE_V1": "1"}),
    ]
    answers = asking.ask(asked, configs, jobs=2, told=lambda one, answer: heard.append(one.id))
    assert sorted(heard) == ["a", "b"]
    assert answers["a"]["flags"] == ["--spec-model", str(configs.folder("draft"))]
    assert (answers["a"]["memory"], answers["a"]["gpu"], answers["a"]["own"]) == (5, "h200", {})
    assert (answers["b"]["gpu"], answers["b"]["own"]) == ("a100", {"VLLM_USE_V1": "1"})


def test_vllm_sees_the_questions_variables_and_none_of_the_shell(configs: Configs) -> None:
    asked = [question("a", env={"VLLM_USE_V1": "1", "VLLM_PLUGINS": "mine"})]
    seen = asking.ask(asked, configs, jobs=1)["a"]["seen"]
    assert "VLLM_OF_THE_SHELL" not in seen
    assert (seen["VLLM_USE_V1"], seen["VLLM_PLUGINS"], seen["VLLM_NO_USAGE_STATS"]) == ("1", "mine", "1")


def test_a_case_that_dies_leaves_the_others(configs: Configs) -> None:
    asked = [question("a", flags=["--die"]), question("b")]
    answers = asking.ask(asked, configs, jobs=1)
    assert answers["a"] == {"oracle_failure": "ended with status 0\nTraceback\nMemoryError"}
    assert answers["b"]["gpu"] == "h200"


def test_an_import_that_fails_is_told_for_every_case(configs: Configs) -> None:
    asked = [question("a", gpu="t4"), question("b", gpu="t4")]
    answers = asking.ask(asked, configs, jobs=1)
    told = {"oracle_failure": "vLLM could not be imported\nImportError: no such thing"}
    assert answers == {"a": told, "b": told}


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"release": "0.32.0"}, "no sources of 0.32.0"),
        ({"config": "unknown"}, "no config called unknown"),
    ],
)
def test_what_is_missing_is_told_before_anything_starts(configs: Configs, more: dict[str, Any], message: str) -> None:
    heard: list[str] = []
    with pytest.raises(OracleError, match=message):
        asking.ask(
            [question("a"), question("b", **more)], configs, jobs=1, told=lambda one, answer: heard.append(one.id)
        )
    assert heard == []
