"""Every rule's bad example fires it, its good example does not, and its words hold together."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvplan.releases import resolve
from kvplan.rules import Example, Finding, Manifest, Rule, Severity, rules, run
from tests.asking import told

Findings = Callable[[Example | Manifest], list[Finding]]
RULES = [pytest.param(rule, id=rule.code) for rule in rules()]


@pytest.fixture(name="findings")
def _findings(launched: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Findings:
    def found(example: Example | Manifest) -> list[Finding]:
        if isinstance(example, Example):
            return list(
                run(launched(example.command, example.version, example.gpu, example.available, example.weights))
            )
        monkeypatch.chdir(tmp_path)
        for name, content in example.files:
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(content, "utf-8")
        report = told("scan", *example.arguments)
        texts = [finding for launch in report["launches"] for finding in launch["findings"]]
        texts += [{**lost, "message": lost["reason"], "fix": None} for lost in report["unreadable"]]
        assert report["launches"] or texts
        return [
            Finding(
                rule=finding["rule"],
                severity=Severity(finding["severity"]),
                message=finding["message"],
                fix=finding["fix"],
            )
            for finding in texts
        ]

    return found


@pytest.mark.parametrize("rule", RULES)
def test_bad_example_fires(rule: Rule, findings: Findings) -> None:
    fired = [finding for finding in findings(rule.bad) if finding.rule == rule.code]
    assert fired
    assert all(finding.severity.rank >= rule.severity.rank for finding in fired)
    assert all("\n" not in f"{finding.message}{finding.fix}" for finding in fired)


@pytest.mark.parametrize("rule", RULES)
def test_good_example_does_not_fire(rule: Rule, findings: Findings) -> None:
    assert [finding for finding in findings(rule.good) if finding.rule in (rule.code, "KV912")] == []


@pytest.mark.parametrize("rule", RULES)
def test_words(rule: Rule) -> None:
    assert re.fullmatch(r"KV[1-79]\d\d", rule.code)
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", rule.name)
    assert rule.summary.endswith(".")
    assert "\n" not in rule.summary
    assert len(rule.explanation.split("\n\n")) >= 2
    assert all(re.fullmatch(r"vllm#\d+", reference) for reference in rule.references)
    if isinstance(rule.bad, Example):
        assert rule.applies(resolve(rule.bad.version))
        assert rule.bad.text.startswith(f"kvplan check --vllm-version {rule.bad.version} ")


def test_codes_and_names_are_unique_and_sorted() -> None:
    codes = [rule.code for rule in rules()]
    assert codes == sorted(set(codes))
    assert len({rule.name for rule in rules()}) == len(codes)


def test_each_rule_has_its_file() -> None:
    for rule in rules():
        module = rule.check.__module__.rsplit(".", 1)[1]
        assert module == f"{rule.code.lower()}_{rule.name.replace('-', '_')}"
