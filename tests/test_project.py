"""Packaging and GitHub's files: licence, pinned tools and actions, workflow and templates."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import kvplan
from tests.readme import PAGES, ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
TEMPLATES = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))


def loaded(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def test_the_licence_is_there_as_it_is_named() -> None:
    assert PROJECT["project"]["license"] == "Apache-2.0"
    (file,) = PROJECT["project"]["license-files"]
    text = (ROOT / file).read_text(encoding="utf-8")
    assert "Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text
    assert re.search(r"^   Copyright \d{4} The kvplan authors$", text, re.MULTILINE)


def test_tools_of_development_are_pinned() -> None:
    for requirement in PROJECT["project"]["optional-dependencies"]["dev"]:
        assert re.fullmatch(r"[\w-]+==\d[\w.]*", requirement), requirement


def test_the_wheel_holds_the_package_only() -> None:
    assert PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == ["kvplan"]


def test_version_and_changelog_agree() -> None:
    changelog = (ROOT / "docs" / "changelog.md").read_text(encoding="utf-8")
    released = re.findall(r"^## \[([^\]]+)\]", changelog, re.MULTILINE)
    assert released[0] == "Unreleased"
    assert released[1] == kvplan.__version__ == PROJECT["project"]["version"]
    assert [name for name in released if f"\n[{name}]: https://" not in changelog] == []


def test_actions_are_pinned_by_commit_here_and_in_the_recipes() -> None:
    files = [*ROOT.glob(".github/**/*.yml"), *PAGES]
    used = [line for file in files for line in re.findall(r"uses: (\S+.*)$", file.read_text("utf-8"), re.MULTILINE)]
    assert len(used) > 5
    for line in used:
        own = line == f"kvplan/kvplan/.github/actions/kvplan@v{kvplan.__version__}"
        assert own or re.fullmatch(r"[\w-]+/[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line), line


def test_the_workflow_runs_what_a_change_has_to_pass() -> None:
    workflow = loaded(ROOT / ".github" / "workflows" / "ci.yml")
    (job,) = workflow["jobs"].values()
    assert workflow["permissions"] == {"contents": "read"}
    assert job["steps"][-1]["run"] == ".ci/run"
    assert job["strategy"]["matrix"]["python"][0] == PROJECT["project"]["requires-python"].removeprefix(">=")


@pytest.mark.parametrize("file", TEMPLATES, ids=lambda file: file.name)
def test_issue_templates_have_their_shape(file: Path) -> None:
    template = loaded(file)
    if file.name == "config.yml":
        assert set(template) == {"blank_issues_enabled", "contact_links"}
        return
    assert set(template) == {"name", "description", "labels", "body"}
    fields = [part for part in template["body"] if part["type"] != "markdown"]
    assert all({"id", "attributes"} <= set(part) and part["attributes"]["label"] for part in fields)
    assert len({part["id"] for part in fields}) == len(fields)


def test_a_wrong_number_is_told_with_plan_and_log() -> None:
    text = (ROOT / ".github" / "ISSUE_TEMPLATE" / "wrong_number.yml").read_text(encoding="utf-8")
    assert "kvplan plan --format json" in text
    assert "Available KV cache memory" in text
