"""What a class of vLLM has by itself and from its bases: attributes, methods, the fields of dataclasses."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.upstream.evaluate import ClassRef, Evaluator, FunctionRef, Unread
from tests.upstream.sources import Imported

MISSING = Unread("no such attribute")


def lineage(evaluator: Evaluator, owner: ClassRef) -> tuple[ClassRef, ...]:
    """The class and its bases inside vLLM, in the order in which Python looks through them."""
    key = (owner.module.path, owner.name)
    if key not in evaluator.lineages:
        bases = [base for node in owner.node.bases if (base := _base(evaluator, node, owner)) is not None]
        merged = _merged([*(list(lineage(evaluator, base)) for base in bases), bases])
        evaluator.lineages[key] = (owner, *merged)
    return evaluator.lineages[key]


def _merged(rows: list[list[ClassRef]]) -> list[ClassRef]:
    """The rows in one, each class before those that stand behind it anywhere (C3)."""
    found: list[ClassRef] = []
    while rows := [row for row in rows if row]:
        behind = {_key(one) for row in rows for one in row[1:]}
        head = next((row[0] for row in rows if _key(row[0]) not in behind), rows[0][0])
        found.append(head)
        rows = [[one for one in row if _key(one) != _key(head)] for row in rows]
    return found


def _key(owner: ClassRef) -> tuple[str, str]:
    return owner.module.path, owner.name


def _base(evaluator: Evaluator, base: ast.expr, owner: ClassRef) -> ClassRef | None:
    """The class that a base is or, for `as_embedding_model(X)` and the like, is made of."""
    inner = base.value if isinstance(base, ast.Subscript) else base
    bound = evaluator.bound(owner.module, inner.id) if isinstance(inner, ast.Name) else None
    made = inner if bound is None else bound[1]
    if isinstance(made, ast.Call) and made.args and _converts(made):
        value = evaluator.settled(made.args[0], owner.module if bound is None else bound[0])
    elif isinstance(inner, (ast.Name, ast.Attribute)):
        value = evaluator.settled(inner, owner.module)
    else:
        return None
    return value if isinstance(value, ClassRef) else None


def _converts(made: ast.Call) -> bool:
    return ast.unparse(made.func).startswith("as_")


def is_converted(evaluator: Evaluator, owner: ClassRef) -> bool:
    """Whether the class, or one of its bases, is a pooling model made of another (`as_embedding_model(X)`)."""
    for one in lineage(evaluator, owner):
        for base in one.node.bases:
            bound = evaluator.bound(one.module, base.id) if isinstance(base, ast.Name) else None
            made = base if bound is None else bound[1]
            if isinstance(made, ast.Call) and _converts(made):
                return True
    return False


def attribute(evaluator: Evaluator, owner: ClassRef, name: str) -> Any:
    """The class attribute or method `name`, by Python's order of bases; MISSING where none has it."""
    for one in lineage(evaluator, owner):
        bound = one.names.get(name)
        match bound:
            case ast.FunctionDef():
                return FunctionRef(one.module, bound, {})
            case ast.AST():
                return evaluator.settled(bound, one.module)
            case Imported() | None:
                continue
    return MISSING


def has_base(evaluator: Evaluator, owner: ClassRef, name: str) -> bool:
    """Whether a class of that name is among the class and its bases."""
    return any(one.name == name for one in lineage(evaluator, owner))


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a dataclass: its annotation, and its default's expression where it has one."""

    name: str
    annotation: ast.expr
    default: ast.expr | None
    owner: ClassRef


def fields(evaluator: Evaluator, owner: ClassRef) -> dict[str, Field]:
    """The fields of a dataclass, those of its bases first. Class variables and fields that only __post_init__ sets
    (`init=False`) are left out."""
    found: dict[str, Field] = {}
    for one in reversed(lineage(evaluator, owner)):
        for name, annotation, default in _annotated(one.node):
            text = ast.unparse(annotation)
            if text.startswith(("ClassVar", "typing.ClassVar")) or _set_later(default):
                found.pop(name, None)
                continue
            found[name] = Field(name, annotation, default, one)
    return found


def _annotated(node: ast.ClassDef) -> Iterator[tuple[str, ast.expr, ast.expr | None]]:
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            yield statement.target.id, statement.annotation, statement.value


def _set_later(default: ast.expr | None) -> bool:
    return isinstance(default, ast.Call) and any(
        keyword.arg == "init" and isinstance(keyword.value, ast.Constant) and keyword.value.value is False
        for keyword in default.keywords
    )


def is_dataclass(owner: ClassRef) -> bool:
    """Whether the class is decorated as a dataclass (`config` is vLLM's own decorator)."""
    names = {
        ast.unparse(one.func if isinstance(one, ast.Call) else one).rpartition(".")[2]
        for one in owner.node.decorator_list
    }
    return bool(names & {"config", "dataclass"})


def own_method(owner: ClassRef, name: str) -> FunctionRef | None:
    """The method that the class itself defines, None where it has none of that name."""
    bound = owner.names.get(name)
    return FunctionRef(owner.module, bound, {}) if isinstance(bound, ast.FunctionDef) else None
