"""Suppression through the command line: comments, entries, baselines, and --no-ignore."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import Result

from kvplan.report.schema import SCHEMA_FILE, scan
from tests import asking

SKIP = "vllm serve zai-org/GLM-5.2-FP8 --kv-cache-dtype-skip-layers 0 1\n"
TOO_LONG = "vllm serve meta-llama/Llama-3.1-8B --max-model-len 9000000\n"
POD = """apiVersion: v1
kind: Pod
metadata: {name: glm}
spec:
  containers:
    - name: vllm
      image: vllm/vllm-openai:v0.33.0
      args:
        - --model=zai-org/GLM-5.2-FP8
        - --kv-cache-dtype-skip-layers
        - "0"
"""
ENTRY = '[[suppress]]\nrule = "{rule}"\n{where}\nreason = "known"\n{more}\n'


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def kvplan(*arguments: str) -> Result:
    return asking.kvplan(*arguments, "--offline")


def told(*arguments: str) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(kvplan("scan", *arguments, "--format", "json").stdout)
    jsonschema.validate(report, json.loads(scan.SCHEMA_FILE.read_text("utf-8")))
    return report


def rules_of(report: dict[str, Any], part: str = "findings") -> set[str]:
    return {finding["rule"] for launch in report["launches"] for finding in launch[part]}


def test_a_comment_above_a_launch(here: Path) -> None:
    (here / "run.sh").write_text(f"# kvplan: ignore[KV203] a pilot\n{SKIP}")
    report = told("run.sh")
    assert "KV203" not in rules_of(report)
    assert rules_of(report, "suppressed") == {"KV203"}
    (one,) = report["launches"][0]["suppressed"]
    assert (one["reason"], one["by"], one["where"]) == ("a pilot", "comment", "run.sh:1")
    assert (report["suppressed_count"], report["launches"][0]["suppressed_count"]) == (1, 1)
    assert "1 suppressed" in kvplan("scan", "run.sh").stdout
    assert kvplan("scan", "run.sh", "--fail-on", "warning").exit_code == 0
    assert kvplan("scan", "run.sh", "--fail-on", "warning", "--no-ignore").exit_code == 1
    assert rules_of(told("run.sh", "--no-ignore", "--ignore", "KV6")) >= {"KV203", "KV603"}


@pytest.mark.parametrize("line", [7, 8, 9])
def test_comments_in_a_manifest(line: int, here: Path) -> None:
    lines = POD.splitlines()
    lines.insert(line, "      # kvplan: ignore[KV203] a pilot")
    (here / "pod.yaml").write_text("\n".join(lines))
    assert rules_of(told("pod.yaml"), "suppressed") == {"KV203"}


def test_a_comment_behind_the_option(here: Path) -> None:
    (here / "pod.yaml").write_text(POD.replace("-skip-layers\n", "-skip-layers  # kvplan: ignore[KV203] a pilot\n"))
    assert rules_of(told("pod.yaml"), "suppressed") == {"KV203"}


@pytest.mark.parametrize(
    ("comment", "says"),
    [("ignore[KV203]", "gives no reason"), ("ignore[KV998] x", "KV998"), ("ignore all of it", "names no rule")],
)
def test_a_comment_that_is_no_use_is_a_finding(comment: str, says: str, here: Path) -> None:
    (here / "run.sh").write_text(f"# kvplan: {comment}\n{SKIP}{SKIP}")
    report = told("run.sh")
    findings = [one for launch in report["launches"] for one in launch["findings"] if one["rule"] == "KV911"]
    assert len(findings) == 1
    assert says in findings[0]["message"]
    assert findings[0]["location"] == {"file": "run.sh", "line": 1, "column": 1}
    assert "KV203" in rules_of(report)


def test_an_error_that_is_suppressed_does_not_fail(here: Path) -> None:
    (here / "run.sh").write_text(TOO_LONG)
    assert kvplan("scan", "run.sh").exit_code == 1
    (rule,) = {
        finding["rule"] for finding in told("run.sh")["launches"][0]["findings"] if finding["severity"] == "error"
    }
    (here / "run.sh").write_text(f"# kvplan: ignore[{rule}] the image patches it\n{TOO_LONG}")
    result = kvplan("scan", "run.sh")
    assert result.exit_code == 0
    assert f"    let be: {rule}, the image patches it (run.sh:1)\n" in result.stdout
    (here / "run.sh").write_text(f"# kvplan: ignore[KV603] no matter\n{TOO_LONG}")
    assert kvplan("scan", "run.sh").exit_code == 1


def test_entries_by_path_and_model(here: Path) -> None:
    for name in ("deploy/a.sh", "try/b.sh"):
        (here / name).parent.mkdir()
        (here / name).write_text(SKIP)
    (here / "kvplan.toml").write_text(ENTRY.format(rule="KV203", where='path = "deploy/"', more=""))
    report = told(".")
    assert [launch["suppressed_count"] for launch in report["launches"]] == [1, 0]
    assert report["launches"][0]["suppressed"][0]["where"] == "kvplan.toml: suppress[1]"
    (here / "kvplan.toml").write_text(ENTRY.format(rule="KV203", where='model = "glm-*"', more="expires = 2999-01-01"))
    assert told(".")["suppressed_count"] == 2
    assert told(".", "--isolated")["suppressed_count"] == 0


def test_entries_hold_for_check_too(here: Path) -> None:
    (here / "kvplan.toml").write_text(ENTRY.format(rule="KV203", where='model = "GLM-*"', more=""))
    check = ("check", "GLM-5.2-FP8", "--skip-layers", "0", "--fail-on", "warning")
    result = kvplan(*check)
    assert result.exit_code == 0
    assert "1 finding suppressed (--no-ignore shows all)" in result.stdout
    assert "known (kvplan.toml: suppress[1])" in result.stdout
    assert kvplan(*check, "--no-ignore").exit_code == 1
    report = json.loads(kvplan(*check, "--format", "json").stdout)
    jsonschema.validate(report, json.loads(SCHEMA_FILE.read_text("utf-8")))
    assert (report["suppressed_count"], report["suppressed"][0]["by"]) == (1, "settings")


def test_an_expired_entry_is_told_and_does_nothing(here: Path) -> None:
    (here / "run.sh").write_text(SKIP)
    (here / "kvplan.toml").write_text(ENTRY.format(rule="KV203", where='path = "run.sh"', more="expires = 2020-01-31"))
    result = kvplan("scan", "run.sh", "--fail-on", "warning")
    assert result.exit_code == 1
    assert result.stderr == "kvplan: kvplan.toml: suppress[1] (KV203) expired on 2020-01-31 and has no effect\n"


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ('rule = "KV203"\npath = "x"', "kvplan.toml: suppress[1].reason: is missing"),
        ('rule = "KV203"\npath = "x"\nreason = " "', "suppress[1].reason: is missing"),
        ('path = "x"\nreason = "r"', "suppress[1].rule: is missing"),
        ('rule = "KV998"\npath = "x"\nreason = "r"', "suppress[1].rule: there is no rule 'KV998'"),
        ('rule = "KV203"\nreason = "r"', "suppress[1].path: is missing, and model too"),
        ('rule = "KV203"\npath = "x"\nreason = "r"\nexpire = 2020-01-01', "did you mean expires?"),
        ('rule = "KV203"\npath = "x"\nreason = "r"\nexpires = "soon"', "suppress[1].expires: 'soon' is not a date"),
        ('rule = "KV203"\npath = "x"\nreason = "r"\nexpires = 3', "suppress[1].expires: is a number, not a date"),
        ('rule = "KV203"\npath = "a[z-a]"\nreason = "r"', "suppress[1].path: 'a[z-a]' is not a pattern"),
    ],
)
def test_entries_that_are_refused(entry: str, says: str, here: Path) -> None:
    (here / "run.sh").write_text(SKIP)
    (here / "kvplan.toml").write_text(f"[[suppress]]\n{entry}\n")
    result = kvplan("scan", "run.sh")
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert says in result.stderr


def test_a_baseline_outlives_line_moves_and_tells_what_is_stale(here: Path) -> None:
    (here / "ops").mkdir()
    (here / "run.sh").write_text(SKIP)
    (here / "other.sh").write_text(SKIP)
    written = kvplan("scan", ".", "--write-baseline", "ops/baseline.json")
    assert (written.exit_code, written.stdout) == (0, "")
    assert "findings written to ops/baseline.json" in written.stderr
    (here / "run.sh").write_text(f"#!/bin/sh\n\n{SKIP}")
    again = kvplan("scan", ".", "--baseline", "ops/baseline.json", "--fail-on", "note")
    assert (again.exit_code, again.stderr) == (0, "")
    (here / "run.sh").write_text(f"{SKIP}{SKIP}")
    assert kvplan("scan", ".", "--baseline", "ops/baseline.json", "--fail-on", "note").exit_code == 1
    assert kvplan("scan", ".", "--baseline", "ops/baseline.json", "--fail-on", "note", "--no-ignore").exit_code == 1
    (here / "run.sh").write_text(SKIP.replace(" --kv-cache-dtype-skip-layers 0 1", ""))
    fixed = kvplan("scan", ".", "--baseline", "ops/baseline.json", "--fail-on", "note")
    assert fixed.exit_code == 0
    assert "stale: KV203 in " in fixed.stderr
    assert fixed.stderr.count("\n") == 1
    assert kvplan("scan", "other.sh", "--baseline", "ops/baseline.json").stderr == ""
    assert kvplan("scan", ".", "--baseline", "ops/baseline.json", "--ignore", "KV203").stderr == ""


def test_a_baseline_belongs_to_its_place_and_not_to_the_current_directory(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "deploy").mkdir()
    (here / "deploy" / "run.sh").write_text(SKIP)
    kvplan("scan", "deploy", "--write-baseline", "baseline.json")
    assert {row["file"] for row in json.loads((here / "baseline.json").read_text())["findings"]} == {"deploy/run.sh"}
    monkeypatch.chdir(here / "deploy")
    result = kvplan("scan", ".", "--baseline", "../baseline.json", "--fail-on", "note")
    assert (result.exit_code, result.stderr) == (0, "")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "--baseline b.json: cannot be read: no such file or directory"),
        ("{", "--baseline b.json: is not JSON"),
        ("[]", "--baseline b.json: is no baseline"),
        ('{"schema": "kvplan-baseline/1", "findings": [{}]}', "lacks one of fingerprint"),
        (
            '{"schema": "kvplan-baseline/1", "findings": '
            '[{"fingerprint": "", "rule": "", "file": "", "launch": "", "count": 0}]}',
            "count",
        ),
    ],
)
def test_baselines_that_are_refused(text: str | None, says: str, here: Path) -> None:
    (here / "run.sh").write_text(SKIP)
    if text is not None:
        (here / "b.json").write_text(text)
    result = kvplan("scan", "run.sh", "--baseline", "b.json")
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert says in result.stderr


def test_a_baseline_that_cannot_be_written(here: Path) -> None:
    (here / "run.sh").write_text(SKIP)
    result = kvplan("scan", "run.sh", "--write-baseline", "none/b.json")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "--write-baseline none/b.json: cannot be written" in result.stderr


LOST = "vllm serve /models/glm\n"


@pytest.mark.parametrize("rule", ["KV912", "launch-not-followed"])
def test_a_launch_that_cannot_be_followed_is_let_be_by_a_comment(rule: str, here: Path) -> None:
    (here / "run.sh").write_text(LOST)
    alone = kvplan("scan", "run.sh", "--fail-on", "warning")
    assert (alone.exit_code, alone.stderr.partition(" (")[0]) == (
        2,
        "kvplan: none of what was found could be followed in run.sh",
    )
    (here / "b.sh").write_text(SKIP)
    arguments = ("scan", "run.sh", "b.sh", "--fail-on", "warning", "--ignore", "KV2")
    assert kvplan(*arguments).exit_code == 1
    (here / "run.sh").write_text(f"# kvplan: ignore[{rule}] served by another team\n{LOST}")
    assert kvplan("scan", "run.sh", "--fail-on", "note").exit_code == 0
    result = kvplan(*arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.endswith("; 1 suppressed\n")
    report = told("run.sh", "b.sh")
    assert report["unreadable"] == []
    (gone,) = report["suppressed_unreadable"]
    assert gone["suppressed"] == {"reason": "served by another team", "by": "comment", "where": "run.sh:1"}
    assert (gone["rule"], gone["location"]["line"], report["suppressed_count"]) == ("KV912", 2, 1)
    assert kvplan(*arguments, "--no-ignore").exit_code == 1


def test_a_file_that_cannot_be_parsed_is_let_be_by_a_comment_anywhere_in_it(here: Path) -> None:
    broken = "from vllm import LLM\nllm = LLM(\n"
    (here / "x.py").write_text(broken)
    assert [one["location"] for one in told("x.py")["unreadable"]] == [None]
    (here / "x.py").write_text(f"{broken}# kvplan: ignore[KV912] a template\n")
    assert told("x.py")["unreadable"] == []


def test_entries_and_baselines_let_launches_be_that_cannot_be_followed(here: Path) -> None:
    (here / "run.sh").write_text(LOST)
    (here / "b.sh").write_text("vllm serve meta-llama/Llama-3.1-8B\n")
    strict = ("scan", ".", "--fail-on", "warning")
    assert kvplan(*strict).exit_code == 1
    (here / "kvplan.toml").write_text(ENTRY.format(rule="launch-not-followed", where='path = "run.sh"', more=""))
    assert kvplan(*strict).exit_code == 0
    (here / "kvplan.toml").unlink()
    kvplan("scan", ".", "--write-baseline", "b.json")
    assert "KV912" in {row["rule"] for row in json.loads((here / "b.json").read_text())["findings"]}
    assert (again := kvplan(*strict, "--baseline", "b.json")).exit_code == 0, again.stdout
    (here / "run.sh").write_text("\n" + LOST + LOST)
    assert kvplan(*strict, "--baseline", "b.json").exit_code == 1
    (here / "run.sh").unlink()
    assert "b.json: stale: KV912 in run.sh is not found any more" in kvplan(*strict, "--baseline", "b.json").stderr


def test_the_severity_of_what_cannot_be_followed(here: Path) -> None:
    (here / "run.sh").write_text(LOST + "vllm serve meta-llama/Llama-3.1-8B\n")
    for severity, code in (("error", 1), ("warning", 0)):
        (here / "kvplan.toml").write_text(f'[severity]\nKV912 = "{severity}"\n')
        assert kvplan("scan", ".").exit_code == code
        assert told(".")["unreadable"][0]["severity"] == severity
    for option in (("--select", "KV1"), ("--ignore", "KV9")):
        assert len(told(".", *option)["unreadable"]) == 1


def test_comments_that_suppress_nothing_are_told(here: Path) -> None:
    (here / "run.sh").write_text(f"# kvplan: ignore[KV203, KV402] a pilot\n{SKIP}")
    assert kvplan("scan", "run.sh").stderr == (
        "kvplan: run.sh:1: stale: the comment lets KV402 be, which is not found there any more: take it away\n"
    )
    assert [(one["rule"], one["where"]) for one in told("run.sh")["stale"]] == [("KV402", "run.sh:1")]
    assert kvplan("scan", "run.sh", "--ignore", "KV402").stderr == ""
    assert kvplan("scan", "run.sh", "--select", "KV203").stderr == ""
    assert kvplan("scan", "run.sh", "--no-ignore").stderr == ""
    (here / "run.sh").write_text("# kvplan: ignore[KV203] a pilot\n# the launch is gone; vllm\n")
    assert "run.sh:1: stale" in kvplan("scan", "run.sh", "--allow-empty").stderr


def test_a_comment_that_is_no_use_is_told_without_a_launch_too(here: Path) -> None:
    (here / "run.sh").write_text(f"# kvplan: ignore[KV912]\n{LOST}")
    result = kvplan("scan", "run.sh", "--allow-empty")
    assert result.stderr == "kvplan: run.sh:1: stale: the comment suppresses nothing: it gives no reason\n"


@pytest.mark.parametrize(
    ("where", "paths", "stale"),
    [
        ('path = "deploy/pilot/*.sh"', ["."], True),
        ('path = "deploy/pilot/*.sh"', ["deploy"], True),
        ('path = "deploy/pilot/*.sh"', ["deploy/run.sh"], False),
        ('path = "deploy/run.sh"', ["deploy/run.sh"], True),
        ('path = "*.sh"', ["deploy"], False),
        ('path = "*.sh"', ["."], True),
        ('model = "zai-org/*"', ["deploy"], False),
        ('model = "zai-org/*"', ["."], True),
    ],
)
def test_entries_that_suppress_nothing_are_told_where_all_was_scanned(
    where: str, paths: list[str], stale: bool, here: Path
) -> None:
    (here / "deploy").mkdir()
    (here / "deploy" / "run.sh").write_text("vllm serve meta-llama/Llama-3.1-8B\n")
    (here / "kvplan.toml").write_text(ENTRY.format(rule="KV203", where=where, more=""))
    said = kvplan("scan", *paths).stderr
    told = "kvplan.toml: suppress[1]: stale: the entry lets KV203 be, which is not found there any more: take it away"
    assert (told in said) is stale


def test_nothing_is_stale_where_launches_could_not_be_followed(here: Path) -> None:
    (here / "run.sh").write_text(f"{SKIP}")
    (here / "other.sh").write_text(f"# kvplan: ignore[KV203] a pilot\n{SKIP}")
    (here / "kvplan.toml").write_text(ENTRY.format(rule="KV203", where='path = "run.sh"', more=""))
    kvplan("scan", ".", "--write-baseline", "b.json", "--isolated")
    scan = ("scan", ".", "--baseline", "b.json")
    assert kvplan(*scan).stderr.count("stale") == 1  # the baseline's row, which the entry takes the place of
    for file in ("run.sh", "other.sh"):
        (here / file).write_text((here / file).read_text().replace("zai-org/GLM-5.2-FP8", "/models/glm"))
    assert "stale" not in kvplan(*scan, "--allow-empty").stderr


def test_an_entry_behind_a_comment_is_not_stale(here: Path) -> None:
    (here / "run.sh").write_text(f"# kvplan: ignore[KV203] a pilot\n{SKIP}")
    (here / "kvplan.toml").write_text(ENTRY.format(rule="KV203", where='path = "run.sh"', more=""))
    assert "stale" not in kvplan("scan", ".").stderr
