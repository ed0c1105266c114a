"""What README.md and docs/ say is so: commands print what they show, links and paths lead somewhere, figures are the
project's own."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import click
import pytest

from kvplan.cli import main
from kvplan.cli.application import COMMANDS
from kvplan.releases import KNOWN
from kvplan.report.formats import FORMATS
from tests import pictures, rules_page
from tests.golden import table
from tests.readme import PAGES, README, ROOT, commands, with_outputs

TEXT = README.read_text(encoding="utf-8")
REFERENCE = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
ON_PAGES = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


@ON_PAGES
def test_the_commands_print_what_is_shown(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert with_outputs(text) == text, "python -m tests.regenerate outputs writes them anew"


def test_the_pages_show_commands() -> None:
    assert len(commands(TEXT)) >= 3
    assert sum(len(commands(page.read_text(encoding="utf-8"))) for page in PAGES) >= 12


def test_the_first_command_is_shown_as_it_runs() -> None:
    assert "kvplan check GLM-5.2-FP8 --skip-layers 0,1" in commands(TEXT)
    assert ".venv/bin/kvplan check GLM-5.2-FP8 --skip-layers 0,1" in TEXT


def test_ci_runs_the_readmes_test_command() -> None:
    ci = (ROOT / ".ci/run").read_text(encoding="utf-8")
    assert ".venv/bin/pip install --quiet '.[dev]' && .venv/bin/pytest -n auto" in TEXT
    assert "pip install --quiet '.[dev]'" in ci
    assert "pytest -n auto" in ci


def test_every_command_format_and_release_bound_is_named() -> None:
    assert all(f"`kvplan {command}" in TEXT for command in COMMANDS)
    assert all(f"`{name}`" in REFERENCE for name in FORMATS)
    assert f"{KNOWN[0]} to {KNOWN[-1]}" in TEXT


def test_the_reference_names_every_option() -> None:
    context = click.Context(main)
    options = {
        spelled
        for name in COMMANDS
        for parameter in getattr(main.get_command(context, name), "params", ())
        for spelled in parameter.opts
        if spelled.startswith("--") and not spelled.startswith("--output-")
    }
    assert len(options) > 20
    assert [option for option in sorted(options - {"--help"}) if f"`{option}" not in REFERENCE] == []


def test_it_can_be_read_in_five_minutes() -> None:
    assert len(TEXT.encode()) <= 12 * 1024


def test_its_paths_exist() -> None:
    named = set()
    for page in PAGES:
        named |= set(re.findall(r"`((?:kvplan|tests|docs|\.ci|\.github)/[\w./*-]*)`", page.read_text(encoding="utf-8")))
    named = {path for path in named if not re.fullmatch(r"kvplan/\d", path)}
    assert len(named) > 30
    assert {path for path in named if not (ROOT / path).exists()} == set()


@ON_PAGES
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith("https://"):
            continue
        file, _, anchor = target.partition("#")
        leads_to = page.parent / file if file else page
        assert leads_to.exists(), target
        if anchor:
            assert anchor in anchors(leads_to), target


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_is_linked_from_the_readme() -> None:
    assert [page.name for page in PAGES[1:] if f"(docs/{page.name})" not in TEXT] == []


def test_the_pictures_are_small_and_shown() -> None:
    for picture in (pictures.PAGE, pictures.SWEEP):
        assert 0 < picture.stat().st_size < 80_000
        assert f"(docs/{picture.name})" in TEXT
    assert "http" not in re.sub(r'xmlns(:\w+)?="[^"]*"|<!--.*?-->', "", pictures.SWEEP.read_text(encoding="utf-8"))


def test_the_share_of_records_that_agree_is_not_overstated() -> None:
    (told, share) = re.findall(r"more than ([\d,]+) answers.*?More than ([\d.]+) % agree", TEXT, re.DOTALL)[0]
    lines = table.PAGE.read_text(encoding="utf-8").partition(table.END)[0]
    agree, total = re.findall(r"^\| all \|.*\| ([\d,]+) / ([\d,]+) \| [\d,]+ / [\d,]+ \|$", lines, re.MULTILINE)[0]
    count, of = int(agree.replace(",", "")), int(total.replace(",", ""))
    assert of > int(told.replace(",", ""))
    assert 100 * count / of > float(share)


def test_the_python_of_the_reference_runs() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", REFERENCE, re.MULTILINE | re.DOTALL)
    parsed = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, "reference.md", None, 0)
    found = doctest.DocTestRunner().run(parsed)
    assert (found.attempted, found.failed) == (6, 0)


def test_the_rules_page_is_made_from_the_rules() -> None:
    assert rules_page.PAGE.read_text(encoding="utf-8") == rules_page.page(), "python -m tests.regenerate rules"
