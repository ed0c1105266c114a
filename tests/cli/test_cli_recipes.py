"""Hooks, action, snippets of README.md and docs/, completion: that they parse, and that their commands run."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.shell_completion import ShellComplete

from kvplan.cli import main
from kvplan.launch.scanning import kind_of
from tests import asking

ROOT = Path(__file__).parents[2]
ACTION = ROOT / ".github" / "actions" / "kvplan"
README, RECIPES, REFERENCE = (
    (ROOT / page).read_text(encoding="utf-8") for page in ("README.md", "docs/ci.md", "docs/reference.md")
)
FINE = "vllm serve meta-llama/Llama-3.1-8B --max-model-len 8192\n"
BAD = FINE.replace("8192", "9000000")

needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")


def loaded(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def kvplan(words: list[str]) -> tuple[int, str]:
    result = asking.kvplan(*words)
    return result.exit_code, result.output


# pre-commit


def hook() -> dict[str, Any]:
    (only,) = loaded(ROOT / ".pre-commit-hooks.yaml")
    assert isinstance(only, dict)
    return only


@pytest.mark.parametrize(("text", "code"), [(FINE, 0), (BAD, 1), ("echo no launch\n", 0)])
def test_the_hook_runs_on_the_files_of_a_commit(text: str, code: int, tmp_path: Path) -> None:
    program, *words = shlex.split(hook()["entry"])
    file = tmp_path / "run.sh"
    file.write_text(text)
    assert program == "kvplan"
    assert kvplan([*words, "--gpu=h200:8", str(file)])[0] == code


@pytest.mark.parametrize(
    ("name", "looked_at"),
    [
        *((f"deploy/a{ending}", True) for ending in (".yaml", ".YML", ".json", ".sh", ".sbatch", ".md", ".mdx", ".py")),
        *((f"deploy/a{ending}", True) for ending in (".service", ".conf", ".tpl", ".zsh", ".bash", ".slurm")),
        *((name, True) for name in ("Dockerfile", "x/Containerfile.gpu", "x/dockerfile", "a.dockerfile", "a.markdown")),
        *((name, False) for name in ("a.txt", "a.toml", "Makefile", "yaml", "a.yaml.orig")),
    ],
)
def test_the_hook_looks_at_what_a_scan_reads(name: str, looked_at: bool) -> None:
    assert (re.search(hook()["files"], name) is not None) is looked_at
    assert (kind_of(Path(name).name) is not None) is looked_at


# GitHub Action


def test_the_action_holds_together() -> None:
    action = loaded(ACTION / "action.yml")
    assert action["runs"]["using"] == "composite"
    assert all("shell" in step for step in action["runs"]["steps"] if "run" in step)
    text = (ACTION / "action.yml").read_text(encoding="utf-8")
    assert set(re.findall(r"\$\{\{ inputs\.([\w-]+) \}\}", text)) == set(action["inputs"])
    # Inputs reach the shell as variables, never as text of a script.
    assert not any("${{" in step.get("run", "") for step in action["runs"]["steps"])
    assert "scan.sh" in action["runs"]["steps"][-1]["run"]
    assert (ACTION / "../../..").resolve() == ROOT
    scan = (ACTION / "scan.sh").read_text(encoding="utf-8")
    given = set(action["runs"]["steps"][-1]["env"])
    assert set(re.findall(r"\$\{(INPUT_\w+|KVPLAN)", scan)) == given
    if os.name == "posix":
        assert (ACTION / "scan.sh").stat().st_mode & stat.S_IXUSR


def action(tmp_path: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    program = tmp_path / "kvplan program"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m kvplan "$@"\n')
    program.chmod(0o755)
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "INPUT_"))}
    return subprocess.run(
        ["bash", str(ACTION / "scan.sh")],
        cwd=tmp_path,
        env={
            **plain,
            "PYTHONPATH": str(ROOT),
            "KVPLAN": str(program),
            "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"),
            "GITHUB_OUTPUT": str(tmp_path / "outputs"),
            **inputs,
        },
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )


@needs_bash
def test_the_action_annotates_sums_up_and_fails(tmp_path: Path) -> None:
    folder = tmp_path / "with blanks"
    folder.mkdir()
    (folder / "run.sh").write_text(BAD)
    done = action(
        tmp_path,
        INPUT_PATHS="with blanks\n\n",
        INPUT_OPTIONS="--offline\r\n--gpu=h200:8\n",
        INPUT_SARIF="out.sarif",
    )
    assert done.returncode == 1, done.stderr
    assert "::error" in done.stdout
    assert (tmp_path / "summary").read_text().startswith("### kvplan: error")
    assert (tmp_path / "outputs").read_text() == "exit-code=1\n"
    assert '"2.1.0"' in (tmp_path / "out.sarif").read_text()


@needs_bash
@pytest.mark.parametrize(("fail_on", "code"), [("", 0), ("error", 0), ("note", 1), ("nonsense", 2)])
def test_the_actions_threshold(fail_on: str, code: int, tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text(FINE)
    done = action(tmp_path, INPUT_PATHS="run.sh", INPUT_OPTIONS="--offline", INPUT_FAIL_ON=fail_on)
    assert done.returncode == code, done.stderr
    assert (tmp_path / "outputs").read_text() == f"exit-code={code}\n"


# README.md and docs/


def snippets(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README + RECIPES, re.MULTILINE | re.DOTALL)


def commands() -> list[list[str]]:
    """Every kvplan command of the snippets, without the program."""
    found: list[str] = re.findall(r"sh '\S*(kvplan (?:check|scan)[^']*)'", "".join(snippets("groovy")))
    for snippet in snippets("yaml"):
        found += [text for text in texts(yaml.safe_load(snippet)) if text.startswith("kvplan ")]
    return [shlex.split(text)[1:] for text in found]


def texts(node: Any) -> list[str]:
    """All strings of a YAML value."""
    if isinstance(node, dict):
        return [text for value in node.values() for text in texts(value)]
    if isinstance(node, list):
        return [text for value in node for text in texts(value)]
    return [node] if isinstance(node, str) else []


def test_there_are_commands_in_the_snippets() -> None:
    assert len(commands()) >= 6
    assert {words[0] for words in commands()} == {"check", "scan", "sweep"}


@pytest.mark.parametrize("words", [pytest.param(words, id=" ".join(words)[:60]) for words in commands()])
def test_the_commands_of_the_snippets_run(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    (tmp_path / "deploy").mkdir()
    (tmp_path / "deploy" / "run.sh").write_text(FINE)
    words = [os.path.expandvars(word) for word in words]
    code, output = kvplan([words[0], "--offline", *words[1:]])
    assert code in (0, 1), output
    assert kvplan([words[0], "--help"])[0] == 0


def test_the_readmes_action_and_hook_are_those_of_the_repository() -> None:
    steps = [
        step
        for snippet in snippets("yaml")
        for job in (yaml.safe_load(snippet).get("jobs") or {}).values()
        for step in job["steps"]
    ]
    used = [step for step in steps if "kvplan/.github/actions/kvplan@" in step.get("uses", "")]
    assert len(used) == 3
    assert all(set(step["with"]) <= set(loaded(ACTION / "action.yml")["inputs"]) for step in used)
    hooks = [
        one["id"]
        for snippet in snippets("yaml")
        for repo in yaml.safe_load(snippet).get("repos", ())
        if repo["repo"] != "local"
        for one in repo["hooks"]
    ]
    assert hooks == [hook()["id"]] * 2


def test_the_settings_of_the_readme_are_read(tmp_path: Path) -> None:
    from kvplan.runs.settings.reading import read

    (example,) = re.findall(r"^```toml\n(.*?)^```$", REFERENCE, re.MULTILINE | re.DOTALL)
    (tmp_path / "models").mkdir()
    (tmp_path / "kvplan.toml").write_text(example, encoding="utf-8")
    settings = read(tmp_path / "kvplan.toml")
    assert set(settings.options) == {"vllm_version", "gpu", "available_kv_memory", "ignore", "fail_on"}
    assert settings.suppressions[0].rule == "KV203"


# Completion


SHELLS = pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])


@SHELLS
def test_completion_scripts(shell: str) -> None:
    """The script that the command prints is the one that the reference has the shells take."""
    if shutil.which("bash") is None:
        pytest.skip("there is no bash")
    assert f"kvplan completion {shell}" in REFERENCE
    done = asking.kvplan("completion", shell)
    assert done.exit_code == 0
    assert f"_KVPLAN_COMPLETE={shell}_complete" in done.stdout


@SHELLS
def test_the_shells_take_their_scripts(shell: str) -> None:
    if shutil.which(shell) is None or shutil.which("bash") is None:
        pytest.skip(f"there is no {shell}")
    script = asking.kvplan("completion", shell).stdout
    done = subprocess.run([shell, "-n"], input=script, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("kvplan sc", ["scan"]),
        ("kvplan check --kvplan", ["--kvplan-config"]),
        ("kvplan scan --fail-on w", ["warning"]),
        ("kvplan completion f", ["fish"]),
        ("kvplan check glm-5.2-f", ["GLM-5.2-FP8"]),
        ("kvplan plan openai/gpt-oss", ["openai/gpt-oss-120b", "openai/gpt-oss-20b"]),
        ("kvplan check own", ["own-model"]),
        ("kvplan check GLM-5.2-FP8 glm", []),
        ("kvplan check GLM-5.2-FP8 --kv-cache-dtype-s", ["--kv-cache-dtype-skip-layers"]),
        ("kvplan check GLM-5.2-FP8 --kv-cache-dtype fp8_e5", ["fp8_e5m2"]),
        ("kvplan check GLM-5.2-FP8 --vllm-version 0.16.0 --kv-cache-dtype nvfp", []),
        ("kvplan check GLM-5.2-FP8 --mamba-cache-mode al", ["align"]),
        ("kvplan sweep GLM-5.2-FP8 --gpu h200,b3", ["h200,b300"]),
        ("kvplan sweep GLM-5.2-FP8 --releases 0.25.1,al", ["0.25.1,all"]),
        ("kvplan check --vllm-version 0.25", ["0.25.1"]),
        ("kvplan check -- v", ["vllm"]),
        ("kvplan check -- vllm s", ["serve"]),
        ("kvplan check -- vllm serve gpt-oss-20", ["gpt-oss-20b"]),
        ("kvplan check -- vllm serve gpt-oss-20b --max-num-se", ["--max-num-seqs"]),
        ("kvplan explain KV20", [f"KV20{number}" for number in range(1, 10)]),
        ("kvplan check GLM-5.2-FP8 --ignore KV9,KV911", ["KV9,KV911"]),
    ],
)
def test_completion_completes(
    words: str, completed: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kvplan.toml").write_text('[catalog.models]\nown-model = "zai-org/GLM-5.2-FP8"\n')
    *before, incomplete = words.split()
    found = ShellComplete(main, {}, "kvplan", "_KVPLAN_COMPLETE").get_completions(before[1:], incomplete)
    assert [one.value for one in found if one.type == "plain"] == completed


@pytest.mark.parametrize("words", ["kvplan check ./con", "kvplan scan dep", "kvplan check M --output-sarif x"])
def test_files_are_left_to_the_shell(words: str) -> None:
    *before, incomplete = words.split()
    (only,) = ShellComplete(main, {}, "kvplan", "_KVPLAN_COMPLETE").get_completions(before[1:], incomplete)
    assert (only.type, only.value) == ("file", incomplete)


def test_completion_through_the_environment() -> None:
    done = completion(_KVPLAN_COMPLETE="bash_complete", COMP_WORDS="kvplan check GLM-5.2-F", COMP_CWORD="2")
    assert done.split() == ["plain,GLM-5.2-FP8"]


def completion(**variables: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "kvplan"],
        env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    return done.stdout
