"""Rules and reports see the engine through its values, its failures and one facade."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import kvplan
from kvplan.engine import facade
from kvplan.engine.facade import element_bytes, is_packed, is_quantised

PACKAGE = Path(kvplan.__file__).parent
OPEN = {"kvplan.engine.values", "kvplan.engine.failures", "kvplan.engine.facade"}


def imported(file: Path) -> Iterator[tuple[str, str]]:
    """Module and name of everything that a file imports, inside functions and for types too."""
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                whole = node.module == "kvplan" and alias.name == "engine"
                yield ("kvplan.engine", "") if whole else (node.module or "", alias.name)


def of_rules_and_reports() -> set[tuple[str, str]]:
    """What both rooms import from the engine."""
    files = [file for room in ("rules", "report") for file in (PACKAGE / room).rglob("*.py")]
    found = {each for file in files for each in imported(file)}
    return {(module, name) for module, name in found if f"{module}.".startswith("kvplan.engine.")}


def test_rules_and_reports_know_nothing_else_of_the_engine() -> None:
    assert {module for module, _ in of_rules_and_reports()} == OPEN


def test_the_facade_holds_nothing_that_nobody_asks() -> None:
    assert set(facade.__all__) == {name for module, name in of_rules_and_reports() if module == facade.__name__}


def test_what_is_quantised() -> None:
    assert is_quantised("fp8_ds_mla")
    assert not any(map(is_quantised, (None, "auto", "bfloat16", "float16", "half")))


def test_bytes_of_an_element() -> None:
    assert (element_bytes("auto", "bfloat16"), element_bytes("fp8", "bfloat16")) == (2, 1)
    assert element_bytes("nvfp4_ds_mla", "bfloat16") is None
    assert element_bytes("half", "bfloat16") is None
    assert is_packed("nvfp4")
    assert not is_packed("half")
