"""The annotations of config fields, and what `get_kwargs` (engine/arg_utils.py) makes of them for the parser."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tests.upstream import classes
from tests.upstream.evaluate import ClassRef, Evaluator, FunctionRef, LiteralType, Member, Unread
from tests.upstream.facts import UNREAD

BOOLEAN = "argparse.BooleanOptionalAction"


@dataclass(frozen=True, slots=True)
class Type:
    """What reads an option's text: a kind as `kvplan.launch.options.Kind` names it."""

    kind: str
    optional: bool = False
    """Whether an empty text means None."""


@dataclass(frozen=True, slots=True)
class Part:
    """One alternative of an annotation: `kind` is a builtin's name, `literal`, `dataclass` or `other`."""

    kind: str
    inner: Any = None
    """Of a collection its element annotations, of `literal` the values, of `dataclass` the class."""


_COLLECTIONS = ("tuple", "list", "set")
_TRANSPARENT = ("Annotated", "SkipValidation", "SkipIsInstance")
_SCALARS = ("bool", "int", "float", "str", "dict", *_COLLECTIONS)


def parts(evaluator: Evaluator, annotation: ast.expr, owner: ClassRef) -> set[Part]:
    """The alternatives of an annotation, aliases followed."""
    match annotation:
        case ast.Constant(value=None):
            return {Part("none")}
        case ast.Constant(value=str() as text):
            return parts(evaluator, ast.parse(text, mode="eval").body, owner)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return parts(evaluator, left, owner) | parts(evaluator, right, owner)
        case ast.Subscript(value=base, slice=inner):
            name = ast.unparse(base).rpartition(".")[2]
            elements = inner.elts if isinstance(inner, ast.Tuple) else [inner]
            if name in _TRANSPARENT:
                return parts(evaluator, elements[0], owner)
            if name == "Union":
                return set().union(*(parts(evaluator, one, owner) for one in elements))
            if name == "Optional":
                return parts(evaluator, inner, owner) | {Part("none")}
            if name == "Literal":
                values = evaluator.value(annotation, owner.module)
                return {Part("literal", values.values)}
            if name in ("tuple", "list", "set"):
                return {Part(name, (tuple(elements), owner))}
            return {Part("dict" if name == "dict" else "other")}
        case _:
            return _of_value(evaluator, annotation, owner)


def _of_value(evaluator: Evaluator, annotation: ast.expr, owner: ClassRef) -> set[Part]:
    if isinstance(annotation, ast.Name) and annotation.id not in _SCALARS:
        place = evaluator.bound(owner.module, annotation.id)
        if place is not None:
            module, node = place
            if isinstance(node, (ast.BinOp, ast.Subscript, ast.Name)):
                return parts(evaluator, node, replace(owner, module=module))
    value = evaluator.value(annotation, owner.module)
    if isinstance(value, LiteralType):
        return {Part("literal", value.values)}
    if isinstance(value, ClassRef):
        if classes.is_dataclass(value):
            return {Part("dataclass", value)}
        return {Part("dict" if any(ast.unparse(base).startswith("dict") for base in value.node.bases) else "other")}
    if isinstance(value, type):
        return {Part(value.__name__)}
    return {Part("other")}


@dataclass(frozen=True, slots=True)
class Wording:
    """What get_kwargs of a release says by name."""

    human: Mapping[str, str]
    """Fields whose whole numbers may have a suffix, with their kind."""
    nothing: str | None
    """What it adds to the choices of a field that may be None."""


def kwargs_of(evaluator: Evaluator, owner: ClassRef, wording: Wording) -> dict[str, dict[str, Any]]:
    """By field, the keyword arguments that vLLM gives `add_argument` for a config class."""
    return {
        name: {"default": default_of(evaluator, field)} | _kwargs(evaluator, field, wording)
        for name, field in classes.fields(evaluator, owner).items()
    }


def _kwargs(evaluator: Evaluator, field: classes.Field, wording: Wording) -> dict[str, Any]:
    found = parts(evaluator, field.annotation, field.owner)
    by_kind = {part.kind: part for part in found}
    if by_kind.keys() == {"bool", "str", "none"}:
        return {"type": Type("str", optional=False), "nargs": "?", "const": True}
    if "bool" in by_kind and "dataclass" not in by_kind:
        return {"action": Unread(BOOLEAN)}
    made = _by_kind(evaluator, by_kind, wording.human.get(field.name))
    if "dataclass" in by_kind:
        made |= {"class": by_kind["dataclass"].inner, "default": None}
    if "none" in by_kind:
        made["type"] = replace(made["type"], optional=True)
        if made.get("choices"):
            made["choices"] = [*made["choices"], wording.nothing]
    return made


def _by_kind(evaluator: Evaluator, by_kind: Mapping[str, Part], human: str | None) -> dict[str, Any]:
    if "dataclass" in by_kind:
        return {"type": Type("dataclass")}
    if "literal" in by_kind:
        return _literal(by_kind["literal"].inner, free="str" in by_kind)
    for kind in _COLLECTIONS:
        if kind in by_kind:
            return _collection(evaluator, kind, by_kind[kind])
    if "int" in by_kind:
        return {"type": Type(human or "int")}
    if "float" in by_kind:
        return {"type": Type("float")}
    if "dict" in by_kind:
        return {"type": Type("json_or_str" if {"str", "other"} & by_kind.keys() else "parsed_json")}
    return {"type": Type("str")}


def _literal(values: tuple[Any, ...], *, free: bool) -> dict[str, Any]:
    made: dict[str, Any] = {"type": Type(type(values[0]).__name__)}
    return made if free else made | {"choices": sorted(values)}


def _collection(evaluator: Evaluator, kind: str, part: Part) -> dict[str, Any]:
    if part.inner is None:
        return {"type": Type("str"), "nargs": "+"}
    elements, owner = part.inner
    open_ended = kind != "tuple" or any(isinstance(one, ast.Constant) and one.value is ... for one in elements)
    first = parts(evaluator, elements[0], owner)
    nargs: Any = "+" if open_ended else len(elements)
    literal = next((one for one in first if one.kind == "literal"), None)
    if literal is not None and len(first) == 1:
        return {"nargs": nargs, **_literal(literal.inner, free=False)}
    kinds = {one.kind for one in first}
    only = next(iter(kinds)) if len(kinds) == 1 else "str"
    return {"nargs": nargs, "type": Type(only if only in ("int", "float", "str") else "str")}


def default_of(evaluator: Evaluator, field: classes.Field) -> Any:
    """A field's default; None for a config object with defaults of its own."""
    node = field.default
    if node is None:
        return Unread("no default")
    if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in ("field", "Field"):
        given = {keyword.arg: keyword.value for keyword in node.keywords}
        if "default_factory" in given:
            return _made(evaluator, evaluator.value(given["default_factory"], field.owner.module))
        node = given.get("default") or (node.args[0] if node.args else None)
        if node is None:
            return Unread("no default")
    return evaluator.value(node, field.owner.module)


def _made(evaluator: Evaluator, factory: Any) -> Any:
    if isinstance(factory, ClassRef):
        return {} if any(ast.unparse(base).startswith("dict") for base in factory.node.bases) else None
    if isinstance(factory, FunctionRef):
        return evaluator.run(factory) if isinstance(factory.node, ast.Lambda) else Unread("made by a function")
    return factory() if factory in (list, dict, set, tuple) else Unread("made by a function")


def plain(value: Any) -> Any:
    """The value as JSON can hold it; UNREAD where it was not read."""
    match value:
        case Unread(text="argparse.SUPPRESS"):
            return None
        case Unread() | FunctionRef():
            return UNREAD
        case ClassRef():
            return None
        case Member(value=inner):
            return plain(inner)
        case dict():
            return {str(key): plain(one) for key, one in value.items()}
        case set() | frozenset():
            return sorted(plain(one) for one in value)
        case list() | tuple():
            return [plain(one) for one in value]
        case _:
            return value
