"""Every field of the frozen records that rooms and stages hand on is set somewhere in kvplan itself.

A field that is declared with a default and read, but that nobody sets, looks like an answer and is none. The sources
are read, not run: a field counts as set where its class (or a subclass) is made with it, by name or by place, where
`replace` or `recast` gives it to a record that has all the fields of that call, and where keywords that are handed on
(`**more`) come from the same module.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "kvplan"
ROOMS = ("checkpoint", "launch", "engine")
COPIES = frozenset({"replace", "recast"})
DATES = frozenset({"since", "until"})
"""Columns of dated tables, which stay empty until the first row begins or ends."""
Key = tuple[str, str]
"""A class: the path of its module below kvplan, and its name."""


@dataclass(frozen=True)
class Record:
    """A frozen dataclass as its source declares it: the fields of its own, and what it derives from."""

    fields: tuple[str, ...]
    bases: tuple[Key, ...]
    by_name: bool = False
    """Its fields have no places (`kw_only=True`)."""


@dataclass
class Made:
    """What the calls of one class give it: by name, and how many by place."""

    names: set[str] = field(default_factory=set)
    places: int = 0


def sources() -> dict[str, str]:
    """kvplan's modules, by path."""
    return {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in sorted(ROOT.rglob("*.py"))}


def unset(modules: Mapping[str, str]) -> list[str]:
    """`module: Record.field` for every field of a frozen record of `ROOMS` that no module sets."""
    parsed = {path: _Module(path, ast.parse(text)) for path, text in modules.items()}
    records = {key: record for module in parsed.values() for key, record in module.records().items()}
    made: defaultdict[Key, Made] = defaultdict(Made)
    copies: list[set[str]] = []
    for module in parsed.values():
        copies += module.note_calls(made)
    found = []
    for (path, name), record in records.items():
        if path.partition("/")[0] not in ROOMS:
            continue
        whole = _fields((path, name), records)
        makers = [made[other] for other in records if (path, name) in _lineage(other, records)]
        given = {word for maker in makers for word in maker.names}
        given |= {word for words in copies if words <= set(whole) for word in words}
        placed = _fields((path, name), records, placed=True)
        given |= set(placed[: max((maker.places for maker in makers), default=0)])
        inherited = {each for base in record.bases for each in _fields(base, records)}
        found += [f"{path}: {name}.{each}" for each in record.fields if each not in given | inherited | DATES]
    return found


def _lineage(key: Key, records: Mapping[Key, Record]) -> set[Key]:
    bases = records[key].bases if key in records else ()
    return {key} | {one for base in bases for one in _lineage(base, records)}


def _fields(key: Key, records: Mapping[Key, Record], *, placed: bool = False) -> list[str]:
    """Every field in the order in which places count; without those that have none where `placed`."""
    if key not in records:
        return []
    inherited = [one for base in records[key].bases for one in _fields(base, records, placed=placed)]
    own = () if placed and records[key].by_name else records[key].fields
    return inherited + [one for one in own if one not in inherited]


class _Module:
    """One module: what its names mean, which records it declares, which it makes."""

    def __init__(self, path: str, tree: ast.Module) -> None:
        self.path = path
        self.nodes = list(ast.walk(tree))
        self.classes = [node for node in self.nodes if isinstance(node, ast.ClassDef)]
        self.meaning: defaultdict[str, set[Key]] = defaultdict(set)
        for node in self.nodes:
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                home = node.module.removeprefix("kvplan").strip(".").replace(".", "/")
                for name in node.names:
                    for file in (f"{home}.py", f"{home}/__init__.py"):
                        self.meaning[name.asname or name.name].add((file, name.name))
        for each in self.classes:
            self.meaning[each.name] = {(path, each.name)}
            self.meaning["cls"].add((path, each.name))
        for node in self.nodes:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                inner = [one.id for one in ast.walk(node.value) if isinstance(one, ast.Name) and one.id[:1].isupper()]
                self.meaning[node.targets[0].id] |= {key for name in inner for key in self.meaning.get(name, ())}

    def records(self) -> dict[Key, Record]:
        """The frozen dataclasses that it declares, without fields that can only be None."""
        return {
            (self.path, node.name): Record(
                tuple(
                    line.target.id
                    for line in node.body
                    if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name)
                    if not (isinstance(line.annotation, ast.Constant) and line.annotation.value is None)
                ),
                tuple(key for base in node.bases for key in self.meaning.get(_name(base), ())),
                any(_says(decorator, "kw_only") for decorator in node.decorator_list),
            )
            for node in self.classes
            if any(_says(decorator, "frozen") for decorator in node.decorator_list)
        }

    def note_calls(self, made: defaultdict[Key, Made]) -> list[set[str]]:
        """Add to `made` what its calls give to classes; the answer is what each of its copies changes."""
        copies = []
        calls = [node for node in self.nodes if isinstance(node, ast.Call)]
        handed_on = {word.arg for call in calls for word in call.keywords if word.arg is not None}
        handed_on |= {
            key.value
            for node in self.nodes
            if isinstance(node, ast.Dict)
            for key in node.keys
            if isinstance(key, ast.Constant) and isinstance(key.value, str)
        }
        for call in calls:
            words = {word.arg for word in call.keywords if word.arg is not None}
            if _name(call.func) in COPIES:
                copies.append(words)
            if any(word.arg is None for word in call.keywords):
                words |= handed_on
            starred = any(isinstance(given, ast.Starred) for given in call.args)
            for key in self.meaning.get(_name(call.func), ()):
                made[key].names |= words
                made[key].places = max(made[key].places, sys.maxsize if starred else len(call.args))
        return copies


def _says(decorator: ast.expr, word: str) -> bool:
    return (
        isinstance(decorator, ast.Call)
        and _name(decorator.func) == "dataclass"
        and any(each.arg == word for each in decorator.keywords)
    )


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def test_every_field_is_set_somewhere() -> None:
    assert unset(sources()) == []


DECLARED = """
@dataclass(frozen=True)
class Query:
    size: int
    window: int | None = None
    sinks: bool = False

def reads(query):
    return query.sinks and query.window
"""


@pytest.mark.parametrize(
    ("making", "left"),
    [
        ("Query(3)", ["Query.window", "Query.sinks"]),
        ("Query(3, 4)", ["Query.sinks"]),
        ("Query(size=3, window=4)", ["Query.sinks"]),
        ("Query(*more())", []),
        ("Other(3, sinks=True)", ["Query.size", "Query.window", "Query.sinks"]),
        ("replace(Query(3, 4), sinks=True)", []),
        ("replace(Query(3, 4), sinks=True, colour=1)", ["Query.sinks"]),
        ("Query(3, 4, **more(sinks=True))", []),
        ("Query(3, 4, **{'sinks': True})", []),
    ],
)
def test_a_field_that_is_only_declared_and_read_is_found(making: str, left: list[str]) -> None:
    making = f"from kvplan.engine.query import Query\n{making}"
    found = unset({"engine/query.py": DECLARED, "engine/making.py": making})
    assert found == [f"engine/query.py: {name}" for name in left]


def test_fields_that_are_given_by_name_alone_take_no_place() -> None:
    declared = """
@dataclass(frozen=True, kw_only=True)
class Span:
    since: str | None = None

@dataclass(frozen=True)
class Row(Span):
    name: str
    wide: bool = False

Row("a", since="1")
"""
    assert unset({"engine/row.py": declared}) == ["engine/row.py: Row.wide"]


def test_a_query_of_the_engine_that_nobody_feeds_is_found() -> None:
    modules = sources()
    fed = modules["engine/layers/backend_questions.py"]
    assert "use_rswa=self._geometry.uses_rswa,\n" in fed
    starved = {**modules, "engine/layers/backend_questions.py": fed.replace("use_rswa=self._geometry.uses_rswa,\n", "")}
    assert unset(starved) == ["engine/backends/values.py: BackendQuery.use_rswa"]
