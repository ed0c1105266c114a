"""Every rule's bad example fires it, its good example does not, and its words hold together."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kvplan.releases import resolve
from kvplan.rules import Rule, rules, run

RULES = [pytest.param(rule, id=rule.code) for rule in rules()]


@pytest.mark.parametrize("rule", RULES)
def test_bad_example_fires(rule: Rule, launched: Any) -> None:
    if rule.bad is None:
        pytest.skip("no launch is known that fires it")
    plan = launched(rule.bad.command, rule.bad.version, rule.bad.gpu, rule.bad.available)
    fired = [finding for finding in run(plan) if finding.rule == rule.code]
    assert fired
    assert all(finding.severity.rank >= rule.severity.rank for finding in fired)
    assert all("\n" not in f"{finding.message}{finding.fix}" for finding in fired)


@pytest.mark.parametrize("rule", RULES)
def test_good_example_does_not_fire(rule: Rule, launched: Any) -> None:
    plan = launched(rule.good.command, rule.good.version, rule.good.gpu, rule.good.available)
    assert [finding for finding in run(plan) if finding.rule == rule.code] == []


@pytest.mark.parametrize("rule", RULES)
def test_words(rule: Rule) -> None:
    assert re.fullmatch(r"KV[1-79]\d\d", rule.code)
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", rule.name)
    assert rule.summary.endswith(".")
    assert "\n" not in rule.summary
    assert len(rule.explanation.split("\n\n")) >= 2
    assert all(re.fullmatch(r"vllm#\d+", reference) for reference in rule.references)
    if rule.bad is not None:
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
