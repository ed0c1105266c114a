"""The conformance table and coverage.json are what `python -m tests.golden.table` makes (shown on one release)."""

from __future__ import annotations

import json
import re

import pytest

from kvplan.engine.coverage import covered_releases
from kvplan.releases import KNOWN
from tests.golden import build, table

RELEASE = "0.24.0"


@pytest.fixture(scope="module")
def made() -> list[table.Answer]:
    """The answers of one release, run afresh."""
    return table.answers([RELEASE])


def committed() -> list[str]:
    """The page's conformance table, line by line."""
    text = table.PAGE.read_text(encoding="utf-8")
    return text.partition(table.BEGIN)[2].partition(table.END)[0].strip().splitlines()


def test_the_readme_shows_what_the_command_makes(made: list[table.Answer]) -> None:
    headings, rule, line, _ = table.table(made).splitlines()
    assert committed()[:2] == [headings, rule]
    assert line in committed()


def test_the_readme_has_every_release_with_records() -> None:
    assert [line.split(" ")[1] for line in committed()[2:]] == [*build.releases(), "all"]


def test_every_core_record_agrees(made: list[table.Answer]) -> None:
    assert [answer.record for answer in made if answer.core and not answer.agrees] == []


def test_coverage_is_what_the_command_makes(made: list[table.Answer]) -> None:
    fresh = table.coverage(made)
    assert {name for name, releases in covered_releases().items() if RELEASE in releases} == set(fresh)


def test_coverage_has_its_shape() -> None:
    text = table.COVERAGE.read_text(encoding="utf-8")
    covered = json.loads(text)
    assert text == table.as_json(covered)
    assert list(covered) == sorted(covered)
    for releases in covered.values():
        assert releases == sorted(set(releases) & set(build.releases()), key=KNOWN.index)


def test_one_record_that_disagrees_uncovers() -> None:
    def answer(architecture: str, *, agrees: bool = True, layers: int = 2) -> table.Answer:
        return table.Answer("id", RELEASE, architecture, True, agrees, layers, layers)

    answers = [answer("A"), answer("A", layers=0), answer("B"), answer("B", agrees=False), answer("C", layers=0)]
    assert table.coverage(answers) == {"A": [RELEASE]}
    assert table.table(answers).splitlines()[-1] == "| all | 4 / 5 | 6 / 6 | 4 / 5 | 6 / 6 |"


def test_a_readme_without_the_comments_is_refused() -> None:
    with pytest.raises(SystemExit, match=re.escape(table.BEGIN)):
        table.with_table("# kvplan\n", "| |\n")
