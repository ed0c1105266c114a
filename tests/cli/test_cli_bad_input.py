"""Bad input: one message on stderr, exit code 2, nothing on stdout."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from kvplan.cli import main
from tests.asking import kvplan

ROOT = Path(__file__).parents[2]
KVPLAN = (sys.executable, "-m", "kvplan")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["chek"], "check, scan, plan, why"),
        (["check"], "no model given"),
        (["check", "GLM-5.2-FB8"], "did you mean zai-org/GLM-5.2-FP8"),
        (["check", "./nowhere"], "nowhere: there is no such file"),
        (["check", "GLM-5.2-FP8", "--vllm-version", "0.9.1"], "0.16.0"),
        (["check", "GLM-5.2-FP8", "--vllm-version", "zero"], "is not a vLLM version"),
        (["check", "GLM-5.2-FP8", "--gpu", "h2000"], "h200"),
        (["check", "GLM-5.2-FP8", "--available-kv-memory", "plenty"], "60GiB"),
        (["check", "GLM-5.2-FP8", "--env", "VLLM_MLA_DISABLE"], "assignment"),
        (["check", "GLM-5.2-FP8", "--skip-layers", "3-0"], "backwards"),
        (["check", "GLM-5.2-FP8", "--kv-cache-dtipe", "fp8"], "--kv-cache-dtype"),
        (["check", "GLM-5.2-FP8", "--formt", "json"], "--format"),
        (["check", "GLM-5.2-FP8", "--skip-layrs", "0"], "did you mean --skip-layers?\n"),
        (["check", "GLM-5.2-FP8", "--gpu", "xx"], "gb10. A capability"),
        (["why", "GLM-5.2-FP8", "--fail-on", "note"], "--fail-on is an option of kvplan check and plan only"),
        (["check", "GLM-5.2-FP8", "--layer=3"], "--layer is an option of kvplan why only"),
        (["check", "GLM-5.2-FP8", "--format", "yaml"], "json"),
        (["check", "GLM-5.2-FP8", "--format"], "requires an argument"),
        (["check", "GLM-5.2-FP8", "--select", "KV777"], "no rule"),
        (["check", "GLM-5.2-FP8", "--output", "/nowhere/at/all"], "--output /nowhere/at/all"),
        (["check", "GLM-5.2-FP8", "--", "vllm", "serve", "GLM-5.2-FP8"], "before --"),
        (["check", "--"], "no command"),
        (["check", "--", "vllm", "bench"], "does not start"),
        (["check", "--", "rm", "-rf"], "does not start"),
        (["check", "\x1b[31mred"], "\\x1b"),
        (["why", "GLM-5.2-FP8", "--layer", "78"], "0 to 77"),
        (["why", "GLM-5.2-FP8", "--value", "colour"], "cache.dtype"),
        (["why", "GLM-5.2-FP8", "--layer", "minus"], "--layer"),
        (["explain"], "CODE"),
        (["explain", "KV000"], "KV000"),
        (["models", "nothing-like-it"], "nothing-like-it"),
        (["releases", "1"], "1"),
    ],
)
def test_one_message_and_exit_code_2(arguments: list[str], says: str) -> None:
    if arguments[0] in ("check", "plan", "why"):
        arguments = [arguments[0], "--offline", *arguments[1:]]
    result = kvplan(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert says in result.stderr
    assert result.stderr.startswith("kvplan: ")
    assert result.stderr.count("\n") == 1


def test_a_caller_gets_a_click_exception() -> None:
    with pytest.raises(click.ClickException) as caught:
        main.main(args=["check", "./nowhere"], standalone_mode=False)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("content", ["", "{", "[]", '{"model_type": 3}', "\ufeff\x00"])
def test_broken_configs(content: str, tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(content, encoding="utf-8")
    result = kvplan("check", str(file))
    assert (result.exit_code, result.stdout) == (2, "")
    assert "config.json" in result.stderr
    assert result.stderr.count("\n") == 1


def test_kvplan_alone_shows_its_help_on_stderr() -> None:
    result = kvplan()
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Commands:" in result.stderr


def test_a_reader_that_leaves_is_no_error() -> None:
    run = subprocess.run(
        f"'{sys.executable}' -m kvplan releases | head -n 1; echo ${{PIPESTATUS[0]}}",
        shell=True,
        executable="/bin/bash",
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
    )
    assert run.stderr == ""
    assert run.stdout.splitlines()[-1] == "0"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_one_message() -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        run = subprocess.run(
            [*KVPLAN, "releases"], stdout=full, stderr=subprocess.PIPE, text=True, cwd=ROOT, check=False
        )
    assert run.returncode == 2
    assert run.stderr.count("\n") == 1


@pytest.mark.parametrize(("redirection", "code"), [(">&-", 0), ("<&-", 0)])
def test_closed_streams(redirection: str, code: int) -> None:
    run = subprocess.run(
        f"'{sys.executable}' -m kvplan check GLM-5.2-FP8 --offline {redirection}",
        shell=True,
        executable="/bin/bash",
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert (run.returncode, run.stderr) == (code, "")


def test_a_closed_standard_input_has_no_config() -> None:
    run = subprocess.run(
        f"'{sys.executable}' -m kvplan check - <&-",
        shell=True,
        executable="/bin/bash",
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr.count("\n") == 1


def test_an_ascii_terminal_gets_question_marks_not_a_crash() -> None:
    run = subprocess.run(
        [*KVPLAN, "check", "GLM-5.2-FP8", "--offline"],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert (run.returncode, run.stderr) == (0, "")
    assert "21 ? indexer" in run.stdout


def test_a_catalog_model_needs_none_of_the_slow_imports() -> None:
    program = (
        "import sys\n"
        "from kvplan.cli import main\n"
        "code = main.main(args=['check', 'GLM-5.2-FP8', '--offline', '--format', 'json'], standalone_mode=False)\n"
        "slow = {'transformers', 'huggingface_hub', 'pydantic', 'yaml', 'rich', 'torch'} & set(sys.modules)\n"
        "sys.exit(f'{slow}' if slow or code else 0)\n"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=False)
    assert (run.returncode, run.stderr) == (0, "")
