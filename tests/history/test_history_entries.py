"""The history's own rules: an entry is called what its constant is called, and some code asks for it."""

import re
from importlib import import_module
from pathlib import Path

import pytest

import kvplan
from kvplan.history import SUBJECTS, entries
from kvplan.releases import Behaviour

CODE = Path(kvplan.__file__).parent


@pytest.mark.parametrize("subject", SUBJECTS)
def test_an_entry_is_called_what_its_constant_is_called(subject: str) -> None:
    module = import_module(f"kvplan.history.{subject}")
    named = {constant: value.name for constant, value in vars(module).items() if isinstance(value, Behaviour)}
    assert named == {constant: constant for constant in named}


def test_every_module_of_the_history_is_a_subject() -> None:
    assert sorted(SUBJECTS) == sorted(file.stem for file in (CODE / "history").glob("[!_]*.py"))


def test_no_two_entries_share_a_name() -> None:
    names = [entry.name for entry in entries()]
    assert len(names) == len(set(names))


def test_every_entry_is_asked_for() -> None:
    code = "\n".join(file.read_text() for file in CODE.rglob("*.py") if file.parent.name != "history")
    words = set(re.findall(r"\b[A-Z][A-Z0-9_]+\b", code))
    assert [entry.name for entry in entries() if entry.name not in words] == []
