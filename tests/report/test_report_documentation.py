"""Findings lead to what is written about their rules, at addresses that the project gives for itself."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from kvplan.cli import main
from kvplan.report import documentation
from kvplan.rules import rules

ROOT = Path(__file__).parents[2]
PAGE = f"{documentation.DOCUMENTATION}/rules.md#kv203"


def told(*words: str) -> str:
    return CliRunner().invoke(main, [*words, "--isolated", "--offline"]).stdout


def check(form: str) -> str:
    return told("check", "GLM-5.2-FP8", "--skip-layers", "0", "--gpu", "h200", "--format", form)


def sweep(form: str) -> str:
    return told("sweep", "GLM-5.2-FP8", "--skip-layers", "0", "--gpu", "h200,b200", "--format", form)


def test_the_address_is_the_projects_own() -> None:
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["urls"]
    assert urls["Homepage"] == documentation.PROJECT
    assert urls["Documentation"] == documentation.DOCUMENTATION.replace("/blob/", "/tree/")
    assert urls["Changelog"].startswith(documentation.DOCUMENTATION)


def test_every_rule_has_its_place_on_the_page() -> None:
    page = (ROOT / "docs" / "rules.md").read_text("utf-8")
    for rule in rules():
        folder, _, anchor = documentation.of_rule(rule.code).rpartition("/rules.md#")
        assert folder == documentation.DOCUMENTATION
        assert f"\n### {anchor.upper()}\n" in page


@pytest.mark.parametrize("asked", [check, sweep])
def test_markdown_and_html_link_the_code(asked: Callable[[str], str]) -> None:
    assert f"[KV203]({PAGE})" in asked("markdown")
    assert f'<a href="{PAGE}">KV203</a>' in asked("html")


@pytest.mark.parametrize("asked", [check, sweep])
def test_sarif_names_the_page_as_help(asked: Callable[[str], str]) -> None:
    (run,) = json.loads(asked("sarif"))["runs"]
    pages = {rule["id"]: rule["helpUri"] for rule in run["tool"]["driver"]["rules"]}
    assert pages == {code: documentation.of_rule(code) for code in pages}
    assert pages["KV203"] == PAGE


def test_json_is_as_it_was() -> None:
    assert documentation.PROJECT not in check("json")
