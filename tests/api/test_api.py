"""The Python API: its examples run, it prints nothing, and it fails as it says."""

from __future__ import annotations

import ast
import doctest
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import pytest

import kvplan
from kvplan import api
from tests import asking

GLM = "vllm serve zai-org/GLM-5.2-FP8 -tp 8 --kv-cache-dtype fp8"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("here")
def test_the_examples_run() -> None:
    assert doctest.testmod(api) == doctest.TestResults(failed=0, attempted=19)


def test_words_and_text_are_one_command(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["vllm", "serve", "Qwen/Qwen3-0.6B", "--max-model-len", "2048"]
    assert (
        kvplan.plan(words, available_kv_memory=4 << 30).capacity
        == kvplan.plan(" ".join(words), available_kv_memory="4GiB").capacity
    )
    assert capsys.readouterr() == ("", "")


def test_a_start_that_fails_is_no_exception() -> None:
    found = kvplan.check("vllm serve Qwen/Qwen3-0.6B -tp 3", gpu="h100")
    assert not found.ok
    assert found.plan.error is not None
    assert [finding.rule for finding in found.errors] == ["KV401"]
    assert kvplan.check("vllm serve Qwen/Qwen3-0.6B -tp 3", gpu="h100", ignore=frozenset({"KV401"})).errors == ()


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("vllm serve 'Qwen", "quotes"),
        ("ls -l", "vllm"),
        ("vllm serve no/such-model", "offline"),
    ],
)
def test_unusable_input_is_one_line(command: str, text: str) -> None:
    with pytest.raises(kvplan.InputError, match=text) as raised:
        kvplan.plan(command)
    assert "\n" not in str(raised.value)


def test_one_rule_is_one_word() -> None:
    assert {finding.rule for finding in kvplan.check(GLM, select="KV402").findings} == {"KV402"}
    assert kvplan.check(GLM, select=()).findings == ()


def test_a_scan_tells_places_and_what_is_suppressed(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = f"# kvplan: ignore[KV402] known\n{GLM}\nvllm serve /models/ours\nvllm serve $MODEL\n"
    (here / "run.sh").write_text(script)
    (here / "other.sh").write_text(f"{GLM} -tp 3\n")
    answers = {"vllm_version": "0.33.0", "models": {"/models/ours": "Qwen/Qwen3-0.6B"}}
    found = kvplan.scan([here / "run.sh", "other.sh"], gpu="h200:8", **answers)  # type: ignore[arg-type]
    assert [(Path(one.location.file).name, one.location.line) for one in found.launches] == [
        ("run.sh", 2),
        ("run.sh", 3),
        ("other.sh", 1),
    ]
    assert [one.plan.checkpoint.name for one in found.launches][1:] == ["Qwen/Qwen3-0.6B", "zai-org/GLM-5.2-FP8"]
    (known,) = found.launches[0].suppressed
    assert (known.finding.rule, known.reason) == ("KV402", "known")
    assert [one.ok for one in found.launches] == [True, True, False]
    assert (found.ok, found.files) == (False, 2)
    (lost,) = found.unreadable
    assert (lost.location.line if lost.location else 0, "MODEL" in lost.reason) == (4, True)
    shown = kvplan.scan(".", include=["run.*"], suppress=False, **answers)  # type: ignore[arg-type]
    assert "KV402" in {finding.rule for finding in shown.launches[0].findings}
    assert shown.files == 1
    with pytest.raises(FrozenInstanceError):
        found.files = 3  # type: ignore[misc]
    assert capsys.readouterr() == ("", "")


def test_a_scan_goes_by_a_baseline(here: Path) -> None:
    (here / "run.sh").write_text(f"{GLM}\n")
    assert asking.kvplan("scan", "--offline", "run.sh", "--write-baseline", "known.json").exit_code == 0
    assert kvplan.scan("run.sh").launches[0].findings != ()
    assert kvplan.scan("run.sh", baseline="known.json").launches[0].findings == ()
    (here / "run.sh").write_text("vllm serve Qwen/Qwen3-0.6B\n")
    assert "is not found any more" in kvplan.scan("run.sh", baseline=here / "known.json").notices[0]


def test_a_sweep_gives_values_back_as_they_were_given(capsys: pytest.CaptureFixture[str]) -> None:
    found = kvplan.sweep(
        "vllm serve Qwen/Qwen3-0.6B",
        gpu="h100,h2000",
        available_kv_memory=[2 << 30, "4GiB"],
        vary={"--max-num-seqs": [8, 16], "--enforce-eager": [True, None]},
    )
    assert len(found.rows) == 16
    first, last = found.rows[0], found.rows[-1]
    assert dict(first.options) == {
        "--gpu": "h100",
        "--available-kv-memory": str(2 << 30),
        "--max-num-seqs": 8,
        "--enforce-eager": True,
    }
    assert first.checked is not None
    assert first.checked.plan.launch.get("enforce_eager") is True
    assert last.options["--enforce-eager"] is None
    assert (last.checked, last.values, "h2000" in (last.problem or "")) == (None, None, True)
    assert [(step.before, step.option) for step in found.steps[:2]] == [(0, "--enforce-eager"), (2, "--enforce-eager")]
    assert kvplan.sweep("vllm serve Qwen/Qwen3-0.6B", vllm_version="0.32..", diff=False).steps == ()
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"gpu": []}, "--gpu: give at least one value"),
        ({"vary": {"kv-cache-dtype": ["auto"]}}, "is not the flag of an option"),
        ({"vary": {"--kv-cache-dtype": "auto"}}, "as a list"),
        ({"vary": {"--gpu": ["h200"]}}, "argument of its own"),
        ({"vllm_version": "0.30..0.20"}, "runs backwards"),
        ({"vary": {"--max-num-seqs": list(range(1, 1002))}}, "more than 1,000"),
    ],
)
def test_sweeps_that_are_refused(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(kvplan.InputError, match=text) as raised:
        kvplan.sweep("vllm serve Qwen/Qwen3-0.6B", **arguments)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"paths": "nowhere"}, "no such file"),
        ({"paths": "-"}, "standard input"),
        ({"paths": ".", "include": ["a[z-a]"]}, "include: 'a"),
        ({"paths": ".", "baseline": "none.json"}, "cannot be read"),
        ({"paths": ".", "ignore": ["KV999"]}, "there is no rule"),
    ],
)
def test_scans_that_are_refused(here: Path, arguments: dict[str, Any], text: str) -> None:
    (here / "run.sh").write_text(f"{GLM}\n")
    with pytest.raises(kvplan.InputError, match=text):
        kvplan.scan(**arguments)


def test_every_public_name_has_a_home() -> None:
    assert all(getattr(kvplan, name) is not None for name in kvplan.__all__)
    tree = ast.parse(Path(kvplan.__file__).read_text("utf-8"))
    typed = {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert set(kvplan.__all__) - {"__version__"} == typed - {"annotations", "import_module", "TYPE_CHECKING"}


def test_other_names_are_not_there() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        kvplan.nonsense  # noqa: B018
