"""Names and contents of files start nothing where they are told: no command of a CI runner, on either output."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from xml.etree import ElementTree

import pytest

from kvplan.report import inert
from kvplan.report.formats import FORMATS
from tests.asking import kvplan

NAMES = (
    "::add-mask::e",
    "##[add-mask]e",
    "##vso[task.setvariable variable=x]y",
    "\n::error::x",
    "\x1b[31mred",
    "\u202edlrow",
)
_COMMAND = re.compile(r"^\s*::|##\w*\[")


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files with such names, and launches with such models and values."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    for number, name in enumerate(NAMES):
        words = shlex.quote(name)
        folder = tmp_path / f"{name.replace('/', '_')}.d"
        folder.mkdir()
        (folder / f"{name.replace('/', '_')}{number}.sh").write_text(
            f"vllm serve {words}\nvllm serve Qwen/Qwen3-0.6B --kv-cache-dtype {words}\n"
            f"vllm serve Qwen/Qwen3-0.6B --served-model-name {words} --no-such-option {words}\n"
        )
        (folder / f"{name.replace('/', '_')}{number}.yaml").write_text(f"vllm: '{name}\nbad: [\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _starting(text: str) -> list[str]:
    return [line for line in text.splitlines() if _COMMAND.search(line)]


@pytest.mark.usefixtures("hostile")
@pytest.mark.parametrize("name", FORMATS)
def test_no_output_starts_a_command(name: str) -> None:
    result = kvplan("scan", *sorted(map(str, Path().iterdir())), "--offline", "--isolated", "--format", name)
    found = _starting(result.stdout)
    own = re.compile(r"::(?:error|warning|notice) file=[^:]*,line=\d+,col=\d+,title=[^:]*::|::warning title=[^:]*::")
    assert [line for line in found if name != "github" or not own.match(line) or "##[" in line] == []
    assert _starting(result.stderr) == []
    assert all(sign.isprintable() or sign == "\n" for sign in result.stdout + result.stderr)
    if name in ("json", "sarif", "gitlab"):
        json.loads(result.stdout)
    if name == "junit":
        ElementTree.fromstring(result.stdout)


@pytest.mark.parametrize("name", NAMES)
def test_no_refusal_starts_a_command(name: str) -> None:
    for words in (["check", name], ["scan", name], ["explain", name], [name], ["models", name]):
        result = kvplan(*words) if words[0] in ("explain", name) else kvplan(*words, "--isolated")
        assert _starting(result.stderr) == []
        assert result.stderr.count("\n") == 1


def test_settings_of_a_hostile_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "a\n::error::x"
    folder.mkdir()
    (folder / "kvplan.toml").write_text(
        'gpu = "h200"\n[[suppress]]\nrule = "KV203"\nmodel = "x"\nreason = "a"\nexpires = 2020-01-01\n'
    )
    monkeypatch.chdir(folder)
    result = kvplan("check", "GLM-5.2-FP8", "--offline")
    assert _starting(result.stderr) == []
    assert result.stderr.count("\n") == 2


def test_json_has_no_numbers_that_are_none() -> None:
    made = inert.dumps({"a": [float("nan"), float("inf")], "b": {"c": float("-inf")}, "d": "##[x]"})
    assert json.loads(made, parse_constant=pytest.fail) == {
        "a": ["NaN", "Infinity"],
        "b": {"c": "-Infinity"},
        "d": "##[x]",
    }
    assert "##[" not in made


def test_plain_text_keeps_what_is_no_command() -> None:
    assert inert.lines("a::b\n # ## c\n#[d]") == "a::b\n # ## c\n#[d]"
    assert inert.lines("x\n  ::error::y ##[z]") == "x\n  : :error::y ## [z]"
