"""Comments, entries and fingerprints: what they suppress and what they do not."""

from __future__ import annotations

from collections import Counter
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvplan.launch.globs import any_of
from kvplan.launch.locations import Location
from kvplan.rules.comments import comments
from kvplan.rules.suppression import (
    Known,
    Origin,
    SettingsEntry,
    by_comments,
    by_entries,
    dismisses_failure,
    divide,
    fingerprint,
)
from kvplan.rules.values import Finding, Severity

FINDING = Finding(
    rule="KV203",
    severity=Severity.WARNING,
    message="no effect",
    options=("--kv-cache-dtype-skip-layers",),
    location=Location("deploy/a.yaml", 12, 3),
)
ORIGIN = Origin(
    model="/models/glm",
    name="zai-org/GLM-5.2-FP8",
    location=Location("deploy/a.yaml", 10, 1),
    title="Deployment glm/vllm",
)
TODAY = date(2026, 6, 1)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("# kvplan: ignore[KV203] a pilot", "a pilot"),
        ("  args: [x]  # kvplan:ignore[KV203]: a pilot", "a pilot"),
        ("// kvplan: ignore[kv203, KV603] - a pilot", "a pilot"),
        ("<!-- kvplan: ignore[KV203] a pilot -->", "a pilot"),
        ("{{/* kvplan: ignore[KV203] a pilot */}}", "a pilot"),
        ("{# kvplan: ignore[KV203] a pilot #}", "a pilot"),
        ("; KVPLAN: ignore[skip-list-without-quantisation] a pilot", "a pilot"),
    ],
)
def test_spellings(line: str, reason: str) -> None:
    (found,), unusable = comments("a.yaml", line)
    assert ("KV203" in found.codes, found.reason, unusable) == (True, reason, ())


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("# kvplan: ignore", "it names no rule"),
        ("# kvplan: ignore[] all", "it names no rule"),
        ("# kvplan: ignore[KV203]", "it gives no reason"),
        ("# kvplan: ignore[KV203] --", "it gives no reason"),
        ("<!-- kvplan: ignore[KV203] -->", "it gives no reason"),
        ("# kvplan: ignore[KV999] x", "there is no rule 'KV999'"),
        ("# kvplan: ignore[KV2] x", "there is no rule 'KV2'"),
    ],
)
def test_what_is_no_use(line: str, says: str) -> None:
    usable, (unusable,) = comments("a.yaml", f"x\n{line}")
    assert usable == ()
    assert says in unusable.reason
    assert unusable.place == Location("a.yaml", 2, 1)


@pytest.mark.parametrize("line", ["kvplan: ignore[KV203] x", "# kvplan ignores this", "# see kvplan", "#: kvplan: x"])
def test_what_is_no_comment_of_ours(line: str) -> None:
    assert comments("a.yaml", line) == ((), ())


@given(st.text(alphabet="# kvplan:ignore[]KV203,\n-/", max_size=60))
def test_nothing_crashes(text: str) -> None:
    for comment in comments("x", f"# kvplan: ignore{text}")[0]:
        assert comment.codes
        assert comment.reason


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("a # kvplan: ignore[KV203] r\nb", {1}),
        ("# kvplan: ignore[KV203] r\n# more\n\na\nb", {1, 4}),
        ("# kvplan: ignore[KV203] r\nargs:\n  - a\n  - b", {1, 2, 3}),
        ("# kvplan: ignore[KV203] r\ncontainer:\n  command: >-\n    a\n    b", {1, 2, 3, 4}),
        ("args: # kvplan: ignore[KV203] r\n  - a\n  - b", {1, 2}),
        ("# kvplan: ignore[KV203] r", {1, 2}),
    ],
)
def test_lines_that_a_comment_is_about(text: str, lines: set[int]) -> None:
    (found,), _ = comments("a.yaml", text)
    assert found.lines == lines


@pytest.mark.parametrize(("line", "holds"), [(9, True), (10, True), (11, True), (12, True), (8, False), (13, False)])
def test_a_comment_is_about_the_launch_or_the_finding(line: int, holds: bool) -> None:
    alone = "# kvplan: ignore[KV203] r"
    text = "\n".join(alone if number == line else "x" for number in range(1, 15))
    usable, _ = comments("deploy/a.yaml", text)
    kept, gone = divide([FINDING], ORIGIN, [by_comments({"deploy/a.yaml": usable})])
    assert (len(kept), len(gone)) == ((0, 1) if holds else (1, 0))
    if holds:
        assert (gone[0].reason, gone[0].by, gone[0].where) == ("r", "comment", f"deploy/a.yaml:{line}")


@pytest.mark.parametrize(
    ("path", "model", "rule", "expires", "holds"),
    [
        ("deploy/*.yaml", None, "KV203", None, True),
        ("other/*.yaml", None, "KV203", None, False),
        ("deploy/*.yaml", None, "KV202", None, False),
        (None, "glm-5.2-*", "KV203", None, True),
        (None, "zai-org/*", "KV203", None, True),
        (None, "/models/glm", "KV203", None, True),
        (None, "llama*", "KV203", None, False),
        ("deploy/*.yaml", "llama*", "KV203", None, False),
        ("deploy", "*glm*", "KV203", TODAY, True),
        ("deploy", "*glm*", "KV203", date(2026, 5, 31), False),
    ],
)
def test_entries(path: str | None, model: str | None, rule: str, expires: date | None, holds: bool) -> None:
    globs = None if path is None else any_of(Path(), [path])
    entry = SettingsEntry(
        rule=rule, reason="r", where="kvplan.toml: suppress[1]", root=Path(), path=globs, model=model, expires=expires
    )
    kept, gone = divide([FINDING], ORIGIN, [by_entries([entry], TODAY)])
    assert (len(kept), len(gone)) == ((0, 1) if holds else (1, 0))


def test_a_baseline_suppresses_as_many_as_it_has() -> None:
    key = fingerprint(FINDING, ORIGIN, "deploy/a.yaml")
    known = Known(Counter({key: 2}), "baseline.json", str)
    kept, gone = divide([FINDING] * 3, ORIGIN, [known.judge])
    assert (len(kept), len(gone), known.met[key]) == (1, 2, 2)


def test_fingerprints_outlive_moves_and_words() -> None:
    key = fingerprint(FINDING, ORIGIN, "a")
    moved = Finding(rule="KV203", severity=Severity.NOTE, message="new words", options=FINDING.options, layers=(1,))
    assert fingerprint(moved, Origin(model="x", name=ORIGIN.name, title=ORIGIN.title), "a") == key
    assert fingerprint(FINDING, ORIGIN, "b") != key
    assert fingerprint(FINDING, Origin(model="/models/glm", name="other", title=ORIGIN.title), "a") != key


def test_only_a_rule_about_errors_stands_for_a_failing_start() -> None:
    entry = SettingsEntry(rule="KV203", reason="r", where="x", root=Path(), model="*")
    _, gone = divide([FINDING], ORIGIN, [by_entries([entry], TODAY)])
    assert not dismisses_failure(gone)
