"""Evaluating small pieces of vLLM's sources without running them: constants, tables, and simple functions.

An evaluation knows Python's literals and operators, the names that modules bind and import from each other, classes
as references, a few builtins, and the functions it is lent (`lent`). All else becomes `Unread`, which travels along
as a value; where the way on depends on one, evaluation ends with `Undecided`.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.upstream.sources import Imported, Module, Sources, imported_from


class Undecided(Exception):  # noqa: N818 - an outcome of reading, not a fault
    """The way on depends on something that was not read."""


@dataclass(frozen=True, slots=True)
class Unread:
    """A value that was not evaluated, by its text."""

    text: str

    def __bool__(self) -> bool:
        raise Undecided(self.text)


@dataclass(frozen=True)
class ClassRef:
    """A class of vLLM."""

    module: Module = field(compare=False, repr=False)
    node: ast.ClassDef = field(compare=False, repr=False)
    name: str

    @property
    def names(self) -> Mapping[str, ast.AST | Imported]:
        """What its body binds names to."""
        return self.module.of_class(self.node)


@dataclass(frozen=True, slots=True)
class FunctionRef:
    """A function of vLLM, with the names around it."""

    module: Module = field(compare=False, repr=False)
    node: ast.FunctionDef | ast.Lambda = field(compare=False, repr=False)
    names: Mapping[str, Any] = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Member:
    """A member of an enum."""

    enum: str
    name: str
    value: Any = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class LiteralType:
    """`Literal[…]`."""

    values: tuple[Any, ...]


class _Return(Exception):  # noqa: N818 - how a return statement travels
    def __init__(self, value: Any) -> None:
        self.value = value


_OPERATORS: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.BitOr: operator.or_,
    ast.BitAnd: operator.and_,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda one, many: one in many,
    ast.NotIn: lambda one, many: one not in many,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
}

_BUILTINS: Mapping[str, Any] = {
    "sorted": sorted,
    "list": list,
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
    "dict": dict,
    "len": len,
    "int": int,
    "float": float,
    "str": str,
    "bool": bool,
    "any": any,
    "all": all,
    "max": max,
    "min": min,
    "range": range,
    "isinstance": isinstance,
}

_METHODS = frozenset(
    {"append", "extend", "insert", "remove", "update", "setdefault", "get", "keys", "values", "items", "pop", "union"}
    | {"upper", "lower", "startswith", "endswith", "replace", "removeprefix", "join", "split", "format", "copy", "add"}
)

_ENUMS = ("Enum", "IntEnum", "StrEnum", "Flag", "IntFlag")


@dataclass(frozen=True)
class Evaluator:
    """Evaluates expressions of `sources`; `lent` maps names, dotted or not, to what stands for them."""

    sources: Sources
    lent: Mapping[str, Any] = field(default_factory=dict)
    lineages: dict[tuple[str, str], tuple[ClassRef, ...]] = field(default_factory=dict)
    """By path and name of a class, it and its bases (filled by `tests.upstream.classes`)."""

    def constant(self, module: Module, name: str) -> Any:
        """What the top-level `name` of `module` is; Unread where it binds no such name."""
        return self._named(module, name, set())

    def run(self, function: FunctionRef, *args: Any, **kwargs: Any) -> Any:
        """What the function returns. Raises Undecided."""
        node = function.node
        parameters = [*node.args.posonlyargs, *node.args.args]
        names = dict(function.names)
        defaults = node.args.defaults
        for parameter, default in zip(parameters[len(parameters) - len(defaults) :], defaults, strict=True):
            names[parameter.arg] = self.value(default, function.module, names)
        for parameter, keyword_default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True):
            if keyword_default is not None:
                names[parameter.arg] = self.value(keyword_default, function.module, names)
        names |= dict(zip((parameter.arg for parameter in parameters), args, strict=False)) | kwargs
        if isinstance(node, ast.Lambda):
            return self.value(node.body, function.module, names)
        return self.perform(node.body, function.module, names)

    def perform(self, body: list[ast.stmt], module: Module, names: dict[str, Any]) -> Any:
        """What the statements return, `names` being bound and changed on the way; None where they return nothing."""
        try:
            self._statements(body, module, names)
        except _Return as returned:
            return returned.value
        return None

    def settled(self, node: ast.AST, module: Module) -> Any:
        """The value of an expression; Unread where it depends on something unread."""
        try:
            return self.value(node, module)
        except Undecided as undecided:
            return Unread(str(undecided))

    def value(self, node: ast.AST, module: Module, names: Mapping[str, Any] | None = None) -> Any:
        """The value of an expression."""
        names = {} if names is None else names
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                return names[name] if name in names else self._named(module, name, set())
            case ast.Tuple(elts=parts):
                return tuple(self._elements(parts, module, names))
            case ast.List(elts=parts):
                return self._elements(parts, module, names)
            case ast.Set(elts=parts):
                return set(self._elements(parts, module, names))
            case ast.Dict():
                return self._dict(node, module, names)
            case ast.Attribute():
                return self._attribute(node, module, names)
            case ast.Subscript():
                return self._subscript(node, module, names)
            case ast.Call():
                return self._call(node, module, names)
            case ast.BoolOp(op=ast.And(), values=parts):
                return self._both(parts, module, names, stops_at=False)
            case ast.BoolOp(values=parts):
                return self._both(parts, module, names, stops_at=True)
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                return not self.value(inner, module, names)
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                value = self.value(inner, module, names)
                return value if isinstance(value, Unread) else -value
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self.value(body if self.value(test, module, names) else orelse, module, names)
            case ast.BinOp(left=left, op=op, right=right):
                return self._operate(type(op), node, self.value(left, module, names), self.value(right, module, names))
            case ast.Compare():
                return self._compare(node, module, names)
            case ast.JoinedStr(values=parts):
                return self._joined(node, parts, module, names)
            case ast.Lambda():
                return FunctionRef(module, node, names)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp():
                made = self._comprehension(node.elt, node.generators, module, dict(names))
                return set(made) if isinstance(node, ast.SetComp) else made
            case ast.DictComp():
                pairs = ast.Tuple(elts=[node.key, node.value], ctx=ast.Load())
                return dict(self._comprehension(pairs, node.generators, module, dict(names)))
            case _:
                return Unread(ast.unparse(node))

    def bound(self, module: Module, name: str) -> tuple[Module, ast.AST] | None:
        """Where `name` of `module` is bound, imports inside vLLM followed: the module, and the value, class or
        function; None where that is outside vLLM."""
        seen: set[tuple[str, str]] = set()
        while (module.path, name) not in seen:
            seen.add((module.path, name))
            found = self.sources.binding(module, name)
            if isinstance(found, ast.AST):
                return module, found
            if found is None or found.name is None:
                return None
            source = self.sources.dotted(found.module)
            if source is None:
                return None
            module, name = source, found.name
        return None

    def _named(self, module: Module, name: str, seen: set[tuple[str, str]]) -> Any:
        if name in self.lent:
            return self.lent[name]
        if (module.path, name) in seen:
            return Unread(name)
        seen.add((module.path, name))
        bound = self.sources.binding(module, name)
        match bound:
            case None:
                return _BUILTINS.get(name, Unread(name))
            case Imported(module=dotted, name=None):
                return Unread(dotted)
            case Imported(module=dotted, name=str() as original):
                source = self.sources.dotted(dotted)
                if source is None:
                    return Unread(f"{dotted}.{original}")
                inner = self.sources.dotted(f"{dotted}.{original}")
                if inner is not None and self.sources.binding(source, original) is None:
                    return Unread(f"{dotted}.{original}")
                return self._named(source, original, seen)
            case ast.ClassDef():
                return ClassRef(module, bound, name)
            case ast.FunctionDef():
                return FunctionRef(module, bound, {})
            case ast.AST():
                return self.settled(bound, module)
        return Unread(name)

    def _elements(self, parts: list[ast.expr], module: Module, names: Mapping[str, Any]) -> list[Any]:
        found: list[Any] = []
        for part in parts:
            if isinstance(part, ast.Starred):
                inner = self.value(part.value, module, names)
                found.extend([inner] if isinstance(inner, Unread) else inner)
            else:
                found.append(self.value(part, module, names))
        return found

    def _dict(self, node: ast.Dict, module: Module, names: Mapping[str, Any]) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            read = self.value(value, module, names)
            if key is not None:
                found[self.value(key, module, names)] = read
            elif isinstance(read, dict):
                found |= read
        return found

    def _attribute(self, node: ast.Attribute, module: Module, names: Mapping[str, Any]) -> Any:
        text = ast.unparse(node)
        if text in self.lent:
            return self.lent[text]
        owner = self.value(node.value, module, names)
        if isinstance(owner, ClassRef):
            return self._of_class(owner, node.attr)
        if isinstance(owner, Member):
            return {"name": owner.name, "value": owner.value}.get(node.attr, Unread(text))
        if isinstance(owner, Unread):
            source = self.sources.dotted(owner.text)
            if source is not None and node.attr in source.names:
                return self._named(source, node.attr, set())
            return Unread(f"{owner.text}.{node.attr}")
        if isinstance(owner, Mapping) and "__attributes__" in owner:
            return owner.get(node.attr, Unread(text))
        return Unread(text)

    def _of_class(self, owner: ClassRef, name: str) -> Any:
        bound = owner.names.get(name)
        if bound is None:
            return Unread(f"{owner.name}.{name}")
        if isinstance(bound, ast.FunctionDef):
            return FunctionRef(owner.module, bound, {})
        if is_enum(owner) and isinstance(bound, ast.AST):
            return Member(owner.name, name, self.settled(bound, owner.module))
        return self.settled(bound, owner.module) if isinstance(bound, ast.AST) else Unread(f"{owner.name}.{name}")

    def _subscript(self, node: ast.Subscript, module: Module, names: Mapping[str, Any]) -> Any:
        if ast.unparse(node.value) in ("Literal", "typing.Literal"):
            inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            values = self._elements(list(inner), module, names)
            flat = [one for value in values for one in (value.values if isinstance(value, LiteralType) else (value,))]
            return LiteralType(tuple(flat))
        owner = self.value(node.value, module, names)
        if isinstance(owner, Unread):
            return Unread(ast.unparse(node))
        key = self._slice(node.slice, module, names)
        if isinstance(owner, ClassRef):
            return self._of_class(owner, key) if is_enum(owner) and isinstance(key, str) else Unread(ast.unparse(node))
        if isinstance(owner, type) or isinstance(key, Unread):
            return Unread(ast.unparse(node))
        try:
            return owner[key]
        except (KeyError, IndexError, TypeError):
            return Unread(ast.unparse(node))

    def _slice(self, node: ast.expr, module: Module, names: Mapping[str, Any]) -> Any:
        if not isinstance(node, ast.Slice):
            return self.value(node, module, names)
        ends = [None if end is None else self.value(end, module, names) for end in (node.lower, node.upper, node.step)]
        unread = next((end for end in ends if isinstance(end, Unread)), None)
        return slice(*ends) if unread is None else unread

    def _call(self, node: ast.Call, module: Module, names: Mapping[str, Any]) -> Any:
        text = ast.unparse(node.func)
        args = self._elements(list(node.args), module, names)
        kwargs: dict[str, Any] = {}
        for keyword in node.keywords:
            value = self.value(keyword.value, module, names)
            if keyword.arg is not None:
                kwargs[keyword.arg] = value
            elif isinstance(value, dict):
                kwargs |= value
        if text in self.lent:
            return self.lent[text](*args, **kwargs)
        if text in ("get_args", "typing.get_args") and args and isinstance(args[0], LiteralType):
            return args[0].values
        if isinstance(node.func, ast.Attribute):
            owner = self.value(node.func.value, module, names)
            if hasattr(owner, "called"):
                return owner.called(node.func.attr, args, kwargs)
            if isinstance(owner, (str, list, dict, set, tuple, frozenset)):
                return self._method(owner, node, args, kwargs)
        called = self.value(node.func, module, names)
        if isinstance(called, FunctionRef):
            return self.run(called, *args, **kwargs)
        if callable(called) and not isinstance(called, (Unread, ClassRef)):
            return _whole(node, called, args, kwargs)
        return Unread(ast.unparse(node))

    def _method(self, owner: Any, node: ast.Call, args: list[Any], kwargs: dict[str, Any]) -> Any:
        assert isinstance(node.func, ast.Attribute)
        if node.func.attr not in _METHODS or not hasattr(owner, node.func.attr):
            return Unread(ast.unparse(node))
        return _whole(node, getattr(owner, node.func.attr), args, kwargs)

    def _both(self, parts: list[ast.expr], module: Module, names: Mapping[str, Any], *, stops_at: bool) -> Any:
        value: Any = not stops_at
        unread: Unread | None = None
        for part in parts:
            value = self.value(part, module, names)
            if isinstance(value, Unread):
                unread = value
            elif bool(value) is stops_at:
                return value
        return value if unread is None else unread

    def _operate(self, op: type, node: ast.AST, left: Any, right: Any) -> Any:
        if isinstance(left, Unread) or isinstance(right, Unread) or op not in _OPERATORS:
            return Unread(ast.unparse(node))
        return _whole(node, _OPERATORS[op], [left, right], {})

    def _compare(self, node: ast.Compare, module: Module, names: Mapping[str, Any]) -> Any:
        left = self.value(node.left, module, names)
        for op, comparator in zip(node.ops, node.comparators, strict=True):
            right = self.value(comparator, module, names)
            if isinstance(left, Unread) or isinstance(right, Unread):
                return Unread(ast.unparse(node))
            if not _OPERATORS[type(op)](left, right):
                return False
            left = right
        return True

    def _joined(self, node: ast.AST, parts: list[ast.expr], module: Module, names: Mapping[str, Any]) -> Any:
        values = [
            self.value(part.value if isinstance(part, ast.FormattedValue) else part, module, names) for part in parts
        ]
        if any(isinstance(value, Unread) for value in values):
            return Unread(ast.unparse(node))
        return "".join(map(str, values))

    def _comprehension(
        self, made: ast.expr, generators: list[ast.comprehension], module: Module, names: dict[str, Any]
    ) -> list[Any]:
        first, *rest = generators
        found: list[Any] = []
        for one in self._each(self.value(first.iter, module, names)):
            self._bind(first.target, one, names)
            if all(self.value(test, module, names) for test in first.ifs):
                found.extend(
                    self._comprehension(made, rest, module, names) if rest else [self.value(made, module, names)]
                )
        return found

    def _each(self, many: Any) -> list[Any]:
        """What a loop over the value goes through."""
        if isinstance(many, ClassRef) and is_enum(many):
            names = many.names
            return [self._of_class(many, name) for name, bound in names.items() if isinstance(bound, ast.expr)]
        try:
            return list(many)
        except TypeError:
            raise Undecided(f"a loop over {many}") from None

    def _statements(self, body: list[ast.stmt], module: Module, names: dict[str, Any]) -> None:
        for statement in body:
            self._statement(statement, module, names)

    def _statement(self, node: ast.stmt, module: Module, names: dict[str, Any]) -> None:
        match node:
            case ast.Return(value=value):
                raise _Return(None if value is None else self.value(value, module, names))
            case ast.Assign(targets=targets, value=value):
                read = self.value(value, module, names)
                for target in targets:
                    self._assign(target, read, module, names)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._assign(target, self.value(value, module, names), module, names)
            case ast.AugAssign(target=target, op=op, value=value):
                left = self.value(target, module, names)
                self._assign(
                    target, self._operate(type(op), node, left, self.value(value, module, names)), module, names
                )
            case ast.Expr(value=value):
                self.value(value, module, names)
            case ast.If(test=test):
                self._statements(node.body if self.value(test, module, names) else node.orelse, module, names)
            case ast.For(target=target, iter=many):
                for one in self._each(self.value(many, module, names)):
                    self._bind(target, one, names)
                    self._statements(node.body, module, names)
            case ast.With() | ast.Try():
                self._statements(node.body, module, names)
            case ast.Import() | ast.ImportFrom():
                self._import(node, module, names)
            case ast.FunctionDef():
                names[node.name] = FunctionRef(module, node, names)
            case ast.Delete(targets=targets):
                for target in targets:
                    if isinstance(target, ast.Subscript):
                        owner, key = self.value(target.value, module, names), self.value(target.slice, module, names)
                        owner.pop(key, None)
            case ast.Raise():
                raise Undecided(f"raises {ast.unparse(node)}")
            case _:
                pass

    def _import(self, node: ast.Import | ast.ImportFrom, module: Module, names: dict[str, Any]) -> None:
        if isinstance(node, ast.Import):
            names |= {alias.asname or alias.name: Unread(alias.name) for alias in node.names}
            return
        source = imported_from(node, module.package)
        found = self.sources.dotted(source)
        for alias in node.names:
            text = f"{source}.{alias.name}"
            names[alias.asname or alias.name] = Unread(text) if found is None else self._named(found, alias.name, set())

    def _assign(self, target: ast.expr, value: Any, module: Module, names: dict[str, Any]) -> None:
        if isinstance(target, ast.Subscript):
            owner, key = self.value(target.value, module, names), self.value(target.slice, module, names)
            if isinstance(owner, dict):
                owner[key] = value
        else:
            self._bind(target, value, names)

    def _bind(self, target: ast.expr, value: Any, names: dict[str, Any]) -> None:
        if isinstance(target, ast.Name):
            names[target.id] = value
        elif isinstance(target, ast.Tuple) and isinstance(value, (tuple, list)):
            for one, part in zip(target.elts, value, strict=True):
                self._bind(one, part, names)


def is_enum(owner: ClassRef) -> bool:
    """Whether the class is an enum."""
    return any(ast.unparse(base).rpartition(".")[2] in _ENUMS for base in owner.node.bases)


def _whole(node: ast.AST, called: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The call's value, Unread where Python objects to arguments that hold something unread."""
    try:
        return called(*args, **kwargs)
    except (TypeError, ValueError, KeyError, IndexError, Undecided):
        return Unread(ast.unparse(node))
