"""The help of every command: its examples work, and its lines fit a terminal."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import click
import pytest

from kvplan.cli import main
from kvplan.cli.application import COMMANDS
from tests.asking import kvplan
from tests.small_config import SMALL_QWEN3


def epilog(name: str) -> str:
    command = main.get_command(click.Context(main), name)
    assert command is not None
    return (command.epilog or "").replace("\\\n", " ")


def examples(name: str) -> list[str]:
    """The command lines that begin with kvplan; what shells do besides is cut off."""
    lines = [line.strip() for line in epilog(name).splitlines()]
    return [line.partition(" | source")[0] for line in lines if line.startswith("kvplan ")]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with all that the examples name."""
    monkeypatch.chdir(tmp_path)
    for folder in ("deploy", "k8s", "my-model"):
        (tmp_path / folder).mkdir()
    for file in ("deploy/a.sh", "k8s/b.sh", "run.sh"):
        (tmp_path / file).write_text("vllm serve zai-org/GLM-5.2-FP8 -tp 8\n")
    (tmp_path / "deploy" / "c.yaml").write_text(
        "image: vllm/vllm-openai:v0.33.0\nargs: [zai-org/GLM-5.2-FP8, -tp, '8']\n"
    )
    (tmp_path / "my-model" / "config.json").write_text(json.dumps(SMALL_QWEN3))
    return tmp_path


@pytest.mark.parametrize("name", COMMANDS)
def test_the_examples_work(name: str, project: Path) -> None:
    assert examples(name)
    for example in examples(name):
        result = kvplan(*shlex.split(example)[1:])
        assert result.exit_code in (0, 1), (example, result.stderr)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_fits(name: str) -> None:
    text = kvplan(name, "--help").stdout
    assert text.startswith(f"Usage: kvplan {name} ")
    assert "Example" in text
    assert max(map(len, text.splitlines())) <= 120
