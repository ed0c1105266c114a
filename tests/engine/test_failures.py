"""Every failure has a class, a check that raises it and a rule that tells it; mypy holds both to its facts."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import kvplan
from kvplan.engine import failures
from kvplan.engine.failures import Failure, ModelRefused, NoBackend, NoMemory, NoParallelPlan
from kvplan.rules import rules

PACKAGE = Path(kvplan.__file__).parent
IN_THEIR_OWN_WORDS = {ModelRefused, NoParallelPlan}
"""What vLLM says of these is all there is to say: KV905 passes it on."""


def kinds(base: type[Failure] = Failure) -> Iterator[type[Failure]]:
    """All failures below `base`, without the bases among them."""
    for kind in base.__subclasses__():
        if kind.code:
            yield kind
        yield from kinds(kind)


def made_in(path: Path) -> set[str]:
    """Names of what the code in a file or folder calls."""
    files = [path] if path.suffix else sorted(path.rglob("*.py"))
    calls = (node for file in files for node in ast.walk(ast.parse(file.read_text("utf-8"))))
    return {node.func.id for node in calls if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}


def asked_in(path: Path) -> set[str]:
    """Names of the failures that the code in a file asks the plan for."""
    return {
        node.args[0].id
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "failures"
        and isinstance(node.args[0], ast.Name)
    }


def test_codes_are_told_apart() -> None:
    codes = [kind.code for kind in kinds()]
    assert sorted(set(codes)) == sorted(codes)


def test_every_failure_is_raised_by_some_check() -> None:
    assert {kind.__name__ for kind in kinds()} - made_in(PACKAGE / "engine") == set()


def test_every_failure_is_told_by_a_rule() -> None:
    claimed = {kind for rule in rules() for kind in rule.claims}
    assert set(kinds()) - claimed == IN_THEIR_OWN_WORDS


def test_rules_ask_for_what_they_claim() -> None:
    for rule in rules():
        module = Path(rule.check.__code__.co_filename)
        asked = asked_in(module)
        if "refusals(" in module.read_text("utf-8"):
            asked |= asked_in(module.with_name("refusals.py"))
        meant = {kind for name in asked for kind in (getattr(failures, name), *kinds(getattr(failures, name)))}
        assert {kind for kind in meant if kind.code} == set(rule.claims), rule.code


def test_a_failure_holds_its_facts_and_never_changes() -> None:
    found = NoBackend(layer="model.layers.0.self_attn.attn", cache_dtype="fp8", head_size=80)
    assert (found.code, found.cache_dtype, found.sparse) == ("no_backend", "fp8", False)
    assert found == NoBackend(cache_dtype="fp8", head_size=80, layer="model.layers.0.self_attn.attn")
    assert found.about("other") != found
    assert "head_size=80" in repr(found)
    with pytest.raises(AttributeError):
        found.head_size = 64  # type: ignore[misc]


def test_a_failure_lacks_nothing() -> None:
    assert NoMemory().available_bytes is None
    with pytest.raises(TypeError, match="NoBackend lacks layer"):
        NoBackend(cache_dtype="fp8", head_size=80)  # type: ignore[call-arg]
