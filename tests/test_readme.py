"""What README.md says is so: its commands print what it shows, and its figures are the project's own."""

from __future__ import annotations

import re

from kvplan.cli.application import COMMANDS
from kvplan.releases import KNOWN
from kvplan.report.formats import FORMATS
from tests.readme import README, ROOT, commands, with_outputs

TEXT = README.read_text(encoding="utf-8")


def test_the_commands_print_what_is_shown() -> None:
    assert len(commands(TEXT)) >= 5
    assert with_outputs(TEXT) == TEXT, "python -m tests.readme writes the outputs anew"


def test_the_first_command_is_shown_as_it_runs() -> None:
    assert commands(TEXT)[0] == "kvplan check GLM-5.2-FP8 --skip-layers 0,1"
    assert ".venv/bin/kvplan check GLM-5.2-FP8 --skip-layers 0,1" in TEXT


def test_ci_runs_the_readmes_test_command() -> None:
    ci = (ROOT / ".ci/run").read_text(encoding="utf-8")
    assert ".venv/bin/pip install --quiet '.[dev]' && .venv/bin/pytest -n auto" in TEXT
    assert "pip install --quiet '.[dev]'" in ci
    assert "pytest -n auto" in ci


def test_every_command_format_and_release_bound_is_named() -> None:
    assert all(f"`kvplan {command}" in TEXT for command in COMMANDS)
    assert all(f"`{name}`" in TEXT for name in FORMATS)
    assert f"{KNOWN[0]} to {KNOWN[-1]}" in TEXT


def test_its_paths_exist() -> None:
    named = set(re.findall(r"`((?:kvplan|tests|\.ci)/[\w./]*)`", TEXT)) - {"kvplan/1"}
    assert len(named) > 8
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []
