"""The door: whatever happens behind it, exit code 2 and one line, and never 1, which means a finding."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from kvplan.cli import main
from tests.asking import told

KVPLAN = (sys.executable, "-m", "kvplan")
ROOT = Path(__file__).parents[2]
SECRET = "hunter2"


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_given: object, **_named: object) -> None:
        raise KeyError(SECRET)

    monkeypatch.setattr("kvplan.engine.planner._run", fail)


@pytest.mark.usefixtures("broken")
def test_what_nobody_foresaw_is_one_line() -> None:
    result = CliRunner().invoke(main, ["check", "GLM-5.2-FP8", "--offline", "--isolated"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("kvplan: internal error: KeyError at engine/planner.py:")
    assert result.stderr.count("\n") == 1
    assert "--debug" in result.stderr
    assert SECRET not in result.stderr


@pytest.mark.usefixtures("broken")
@pytest.mark.parametrize("where", ["before", "behind"])
def test_debug_shows_the_traceback(where: str) -> None:
    words = ["check", "--debug"] if where == "behind" else ["--debug", "check"]
    result = CliRunner().invoke(main, [*words, "GLM-5.2-FP8", "--offline", "--isolated"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Traceback" in result.stderr
    assert SECRET in result.stderr


@pytest.mark.usefixtures("broken")
def test_debug_of_a_literal_command_is_not_kvplans() -> None:
    result = CliRunner().invoke(main, ["check", "--offline", "--", "vllm", "serve", "GLM-5.2-FP8", "--debug"])
    assert "Traceback" not in result.stderr


@pytest.mark.usefixtures("broken")
def test_a_scan_goes_on_behind_a_launch_that_it_fails_on(tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text("vllm serve GLM-5.2-FP8\n")
    (tmp_path / "sweep.sh").write_text("vllm serve GLM-5.2-FP8 -tp 2\n")
    report = told("scan", str(tmp_path), "--offline", "--isolated")
    assert [one["reason"].partition(" at ")[0] for one in report["unreadable"]] == [
        "shell: internal error: KeyError",
        "shell: internal error: KeyError",
    ]
    assert SECRET not in str(report)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a full device")
@pytest.mark.parametrize(
    "words", [("--version",), ("releases",), ("check", "GLM-5.2-FP8", "--offline"), ("completion", "bash")]
)
def test_a_full_disk_is_told_in_one_line(words: tuple[str, ...]) -> None:
    with open("/dev/full", "w", encoding="utf-8") as full:  # noqa: PTH123
        done = subprocess.run([*KVPLAN, *words], stdout=full, stderr=subprocess.PIPE, text=True, cwd=ROOT, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("kvplan: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a full device")
def test_a_full_standard_error_changes_no_exit_code() -> None:
    with open("/dev/full", "w", encoding="utf-8") as full:  # noqa: PTH123
        words = [*KVPLAN, "check", "nothing-of-that-name", "--offline"]
        done = subprocess.run(
            words,
            stdout=subprocess.PIPE,
            stderr=full,
            cwd=ROOT,
            check=False,
        )
    assert (done.returncode, done.stdout) == (2, b"")


def test_ctrl_c_while_importing_ends_quietly() -> None:
    program = (
        "import sys, kvplan.__main__ as door\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'kvplan.cli': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        "door.run()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=False, env=dict(os.environ)
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
