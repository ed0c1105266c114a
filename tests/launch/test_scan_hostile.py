"""Files that nobody would deploy: one line each, no crash, no hang, bounded memory."""

from __future__ import annotations

import os
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvplan.launch.found import Unreadable
from kvplan.launch.passages import Source
from kvplan.launch.resolving import Answers
from kvplan.launch.scanning import MAX_BYTES, Text, launches
from tests import asking

GOOD = "name: a\nimage: vllm/vllm-openai:v0.33.0\nargs: [--model, meta-llama/Llama-3.1-8B]\n"

HOSTILE = {
    "bomb.yaml": "v: vllm\na0: &a0 [x,x,x,x,x,x,x,x,x]\n"
    + "".join(f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12)),
    "cycle.yaml": "v: vllm\na: &a [*a]\n",
    "mergecycle.yaml": "v: vllm\na: &a\n  <<: *a\n",
    "deep.yaml": "vllm: " + "[" * 100_000,
    "deepmap.yaml": "vllm: " + "{a: " * 50_000,
    "unclosed.yaml": 'vllm: "serve',
    "template.yaml": "image: vllm\n{{- if .Values.x }}\n  - {{ .Values.y }}\n{{- end }}\n",
    "deep.py": "from vllm import LLM\nLLM(" + "(" * 5000 + ")" * 5000 + ")",
    "chained.py": "from vllm import LLM\nLLM(model=" + "+".join(['"a"'] * 20_000) + ")",
    "deep.sh": "vllm serve x " + "$(" * 5000,
    "loops.sh": "".join(f"for v{i} in 1 2 3 4 5 6 7 8 9; do\n" for i in range(7)) + "vllm serve $v0\n" + "done\n" * 7,
    "grow.sh": "A=aaaaaaaaaa\n" + 'A="$A$A"\n' * 60 + 'vllm serve "$A"\n',
    "array.sh": "A=(a b)\n" + 'A+=("${A[@]}" "${A[@]}")\n' * 60 + 'vllm serve "${A[@]}"\n',
    "env.yaml": "name: a\nimage: vllm/vllm-openai:v0.33.0\n"
    + 'args: [--model, "$(A39)"]\nenv:\n- {name: A0, value: aaaaaaaaaa}\n'
    + "".join(f'- {{name: A{i}, value: "$(A{i - 1})$(A{i - 1})"}}\n' for i in range(1, 40)),
    "braces.yaml": 'name: a\nimage: vllm/vllm-openai:v0.33.0\nargs: [--model, "' + "{{" * 50_000 + '"]\n',
}


def told(*arguments: str) -> dict[str, Any]:
    return asking.told("scan", "--offline", *arguments)


@pytest.mark.parametrize("name", HOSTILE)
def test_one_line_each(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(HOSTILE[name], "utf-8")
    (tmp_path / "good.yaml").write_text(GOOD, "utf-8")
    began = time.monotonic()
    report = told(str(tmp_path))
    assert time.monotonic() - began < 60
    assert [launch["model"]["name"] for launch in report["launches"]] == ["meta-llama/Llama-3.1-8B"]
    assert len(report["unreadable"]) >= 1
    assert all("\n" not in one["reason"] for one in report["unreadable"])
    if name != "loops.sh":
        assert len(report["unreadable"]) == 1


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "binary.yaml").write_bytes(b"vllm\0\1\2")
    (tmp_path / "latin.yaml").write_bytes("vllm: ä".encode("latin-1"))
    (tmp_path / "picture.png").write_bytes(b"\x89PNG vllm")
    reasons = [one["reason"] for one in told("--allow-empty", str(tmp_path))["unreadable"]]
    assert reasons == ["a binary file", "not UTF-8 text (byte 6)"]


def test_fifty_megabytes(tmp_path: Path) -> None:
    with (tmp_path / "big.yaml").open("w") as stream:
        for _ in range(50):
            stream.write("# vllm serve x\n" * 70_000)
    tracemalloc.start()
    report = told("--allow-empty", str(tmp_path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert report["unreadable"][0]["reason"] == "larger than 4 MB, so hardly a manifest"
    assert peak < 4 * MAX_BYTES


def test_links(tmp_path: Path) -> None:
    (tmp_path / "loop.yaml").symlink_to("loop.yaml")
    (tmp_path / "gone.yaml").symlink_to("nowhere.yaml")
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "up").symlink_to("..")
    (tmp_path / "below" / "good.yaml").write_text(GOOD)
    report = told(str(tmp_path))
    assert len(report["launches"]) == 1
    reasons = [one["reason"] for one in report["unreadable"]]
    assert reasons == ["no such file or directory", "too many levels of symbolic links"]


def test_a_file_under_several_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "good.yaml").write_text(GOOD)
    report = told("below", "./below", "below/../below/good.yaml", str(tmp_path))
    assert [one["found"]["location"]["file"] for one in report["launches"]] == ["below/good.yaml"]
    assert report["files"] == 1


def test_permissions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "good.yaml").write_text(GOOD)
    closed = tmp_path / "closed.yaml"
    closed.write_text(GOOD)
    opened = os.open

    def refuse(path: Any, *arguments: Any, **options: Any) -> Any:
        if os.fspath(path).endswith("closed.yaml"):
            raise PermissionError(13, os.strerror(13))
        return opened(path, *arguments, **options)

    monkeypatch.setattr(os, "open", refuse)
    report = told(str(tmp_path))
    assert [one["reason"] for one in report["unreadable"]] == ["permission denied"]
    assert len(report["launches"]) == 1


@pytest.mark.parametrize("model", ["-", "a/../../etc", "/etc", "~/x", "s3://bucket/x", "''"])
def test_no_model_is_read_from_this_machine(model: str, tmp_path: Path) -> None:
    (tmp_path / "x.sh").write_text(f"vllm serve {model}\n")
    (one,) = asking.told("scan", str(tmp_path), stdin="{}")["unreadable"]
    assert "--model-map" in one["reason"]


def test_an_empty_path() -> None:
    result = asking.kvplan("scan", "--offline", "")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("kvplan: an empty path: ")


def test_a_path_that_is_not_there() -> None:
    result = asking.kvplan("scan", "--offline", "/no/such/path")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "kvplan: /no/such/path: there is no such file or directory\n"


PIECES = st.sampled_from(
    [
        "vllm serve m",
        "$A",
        "${A:-",
        "}",
        "'",
        '"',
        "\\",
        "\n",
        "$(",
        ")",
        "<<E\n",
        "E\n",
        "&&",
        "|",
        ";",
        "{{",
        "}}",
        "image: vllm/vllm-openai:v0.33.0",
        "args: ",
        "- ",
        "[",
        "]",
        ": ",
        "  ",
        "&a ",
        "*a",
        "|\n",
        ">-\n",
        "é",
        "\t",
        "#",
    ]
)


@given(st.lists(PIECES, max_size=25), st.sampled_from(["x.yaml", "x.sh", "Dockerfile", "x.md", "x.py", "x.service"]))
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_nothing_crashes_and_places_are_in_the_file(pieces: list[str], name: str) -> None:
    text = "".join(pieces)
    lines = text.split("\n")
    for one in launches(Text(Source(name, text), None), Answers()).found:
        if isinstance(one, Unreadable):
            assert one.reason
            continue
        for word in one.words:
            place = word.location
            assert 1 <= place.line <= len(lines)
            assert 1 <= place.column <= len(lines[place.line - 1]) + 1
