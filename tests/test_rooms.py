"""The rooms import one way, and no module waits for itself: what each file imports is read off its syntax tree.

Imports inside functions and those for types only count as well: that a room asks another later, or in words only, does
not turn the direction round.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

ROOMS = ("checkpoint", "launch", "engine", "rules", "report", "runs", "cli")
"""Each imports from itself and from those before it."""

COMMON = ("errors", "files", "words", "releases", "history")
"""What all may import, and what imports nothing of the rooms; each imports from those before it."""

FRONT = ("api", "__init__")
"""What Python users import: everything but the command line."""

NOT_FOR: Mapping[str, tuple[str, ...]] = {"checkpoint": ("releases", "history"), "report": ("engine.planner",)}
"""Parts that a room does without: files are read alike for all releases, and a report is made of a plan."""

CIRCLES: frozenset[frozenset[str]] = frozenset()
"""Circles that are known. Whoever opens one takes it away here: the test asks for it."""

VERSION = "kvplan.__version__"
"""Says which kvplan this is; it needs nothing, so that anybody may tell it."""


@dataclass(frozen=True, slots=True)
class Import:
    """One import of a module of kvplan."""

    name: str
    line: int
    lazy: bool
    """Inside a function."""
    typed: bool
    """For type checkers only."""


def module_of(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def trees() -> dict[str, ast.Module]:
    """All modules, read."""
    files = sorted((ROOT / "kvplan").rglob("*.py"))
    return {module_of(file): ast.parse(file.read_text(encoding="utf-8")) for file in files}


@cache
def modules() -> dict[str, tuple[Import, ...]]:
    """All modules, with what they import of kvplan."""
    known = frozenset(trees())
    return {name: tuple(imports(tree, known)) for name, tree in trees().items()}


def imports(node: ast.AST, known: frozenset[str], *, lazy: bool = False, typed: bool = False) -> Iterator[Import]:
    """What a tree imports of the `known` modules; a name that is a module is one, any other belongs to its module."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            for alias in child.names:
                if alias.name in known:
                    yield Import(alias.name, child.lineno, lazy, typed)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, f"line {child.lineno}: imports are written out"
            for alias in child.names:
                whole = f"{child.module}.{alias.name}"
                if whole == VERSION:
                    continue
                if whole in known or child.module in known:
                    yield Import(whole if whole in known else str(child.module), child.lineno, lazy, typed)
        elif isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING":
            for one in child.body:
                yield from imports(ast.Module([one], []), known, lazy=lazy, typed=True)
            for one in child.orelse:
                yield from imports(ast.Module([one], []), known, lazy=lazy, typed=typed)
        elif not isinstance(child, ast.expr):
            inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
            yield from imports(child, known, lazy=lazy or inside, typed=typed)


def part_of(module: str) -> str:
    """The room of a module, or the part beside the rooms."""
    return module.split(".")[1] if "." in module else "__init__"


def allowed(part: str) -> tuple[str, ...]:
    """The parts that a part may import from."""
    if part in COMMON:
        return COMMON[: COMMON.index(part) + 1]
    if part in ROOMS:
        return (*COMMON, *ROOMS[: ROOMS.index(part) + 1])
    if part in FRONT:
        return (*COMMON, *ROOMS[:-1], *FRONT)
    return (*COMMON, *ROOMS, *FRONT)


def test_every_part_has_its_place() -> None:
    assert {part_of(module) for module in modules()} == {*ROOMS, *COMMON, *FRONT, "__main__"}


@pytest.mark.parametrize("part", [*COMMON, *ROOMS, *FRONT])
def test_imports_go_one_way(part: str) -> None:
    found = [
        f"{module}:{one.line} imports {one.name}"
        for module, those in modules().items()
        if part_of(module) == part
        for one in those
        if part_of(one.name) not in allowed(part)
    ]
    assert found == []


@pytest.mark.parametrize("room", NOT_FOR)
def test_rooms_do_without(room: str) -> None:
    unwanted = tuple(f"kvplan.{part}" for part in NOT_FOR[room])
    found = [
        f"{module}:{one.line} imports {one.name}"
        for module, those in modules().items()
        if part_of(module) == room
        for one in those
        if f"{one.name}.".startswith(tuple(f"{name}." for name in unwanted))
    ]
    assert found == []


def test_the_command_lines_tools_stay_in_its_room() -> None:
    """What only a terminal needs is imported by the rooms that know one, and nobody knows vLLM."""
    outside: dict[str, frozenset[str]] = {
        "click": frozenset({"cli"}),
        "rich": frozenset({"report"}),
        "vllm": frozenset(),
        "torch": frozenset(),
    }
    found = [
        f"{module} imports {name}"
        for module, tree in trees().items()
        for name in foreign(tree)
        if name in outside and part_of(module) not in outside[name]
    ]
    assert found == []


def foreign(node: ast.AST) -> Iterator[str]:
    """The packages that a tree imports."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            yield str(child.module).partition(".")[0]
        elif not isinstance(child, ast.expr):
            yield from foreign(child)


def test_no_module_waits_for_itself_when_it_is_imported() -> None:
    graph = {
        module: {name for one in those if not one.lazy and not one.typed for name in loaded(one.name, module)}
        for module, those in modules().items()
    }
    assert circles(graph) == frozenset()


def loaded(name: str, by: str) -> set[str]:
    """The modules that importing one loads: it, and the packages it is in, but for those that its importer is in."""
    parts = name.split(".")
    packages = {".".join(parts[:length]) for length in range(1, len(parts) + 1)}
    return {package for package in packages if package != by and not f"{by}.".startswith(f"{package}.")}


def test_no_module_needs_itself_at_any_time() -> None:
    found = circles({module: {one.name for one in those} for module, those in modules().items()})
    assert found - CIRCLES == frozenset(), "new circles"
    assert CIRCLES - found == frozenset(), "circles that are open now: take them out of CIRCLES"


def circles(graph: Mapping[str, set[str]]) -> frozenset[frozenset[str]]:
    """The largest sets of modules of which each leads to each other."""
    left = dict(graph)
    while ends := {name for name, ahead in left.items() if not ahead}:
        left = {name: ahead - ends for name, ahead in left.items() if name not in ends}
    reached = {name: reachable(left, name) for name in left}
    together = (frozenset(other for other in reached[name] if name in reached[other]) for name in left)
    return frozenset(circle for circle in together if len(circle) > 1)


def reachable(graph: Mapping[str, set[str]], start: str) -> set[str]:
    """Everything that `start` leads to."""
    found: set[str] = set()
    ahead = [start]
    while ahead:
        for name in graph[ahead.pop()] - found:
            found.add(name)
            ahead.append(name)
    return found


def test_the_reading_of_imports() -> None:
    """The tests above would pass on anything if nothing were read."""
    tree = ast.parse(
        "import kvplan.a\n"
        "from kvplan import b\n"
        "from kvplan.a import name\n"
        "if TYPE_CHECKING:\n    from kvplan.b import Type\n"
        "def f():\n    from kvplan.c import g\n"
        "import os\n"
    )
    known = frozenset({"kvplan", "kvplan.a", "kvplan.b", "kvplan.c"})
    assert list(imports(tree, known)) == [
        Import("kvplan.a", 1, False, False),
        Import("kvplan.b", 2, False, False),
        Import("kvplan.a", 3, False, False),
        Import("kvplan.b", 5, False, True),
        Import("kvplan.c", 7, True, False),
    ]
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == {frozenset({"b", "c"})}
    assert sum(len(those) for those in modules().values()) > 1000
