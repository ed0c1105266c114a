"""Where a release reads each option: in functions outside the option's own config class, and in its own methods.

An option is told by the config class and field that it fills (`cache_dtype` of CacheConfig for --kv-cache-dtype), and a
reading by the receiver: `….cache_config.cache_dtype`, a local name or an attribute of `self` that was bound to such a
receiver, a parameter with the class as its annotation. Copies (`self.max_model_len = model_config.max_model_len`) count
where they are made, not where they are read. A whole config object that is handed to something (`asdict(config)`) or
only tested for being there (`if lora_config:`) does not count as a reading of its fields.
"""

from __future__ import annotations

import ast
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, TypeGuard

from tests.upstream import classes
from tests.upstream.evaluate import ClassRef, Evaluator
from tests.upstream.facts import Facts, Subject
from tests.upstream.sources import Moved, Sources
from tests.upstream.subjects import options
from tests.upstream.subjects.speculative_keys import PLACE as SPECULATIVE

ENGINE = options.ENGINE
MOST = 12
"""Places of one option that are told one by one; of more, those that do not refuse are counted by folder."""

MARK = "!"
"""Ends a place where the reading decides whether vLLM refuses: the test of an assertion, or of an `if` that raises."""

_ASIDE = ("third_party/", "vllm_flash_attn/", "benchmarks/", "cute_utils/", "tilelang_utils/")
"""Folders of kernels and of other programs."""

_TELLING = re.compile(r"_config\b|\bargs\b|Config\b")
_WORD = re.compile(r"\w+")

Field: TypeAlias = tuple[str, str]
"""A config class and one of its fields."""


@dataclass
class Scope:
    """What the names in one class or function are bound to: config classes by the receiver's text."""

    name: str = ""
    owner: str = ""
    """The class around it."""
    bound: dict[str, str] = field(default_factory=dict)


def read(sources: Sources) -> Facts:
    """Option by option, and `option.field` for config objects: the places `outside` (`file:function`) and the methods
    of its `own` class, each in order; what nothing reads has neither."""
    filled = _filled(sources)
    wanted = {of for fields in filled.values() for of in fields}
    places = _Places(wanted, _receivers(sources, frozenset(name for name, _ in wanted)))
    for file in sources.files():
        path = file.relative_to(sources.folder).as_posix()
        if path.startswith(_ASIDE) or not _TELLING.search(code := file.read_text("utf-8")):
            continue
        places.look_through(path, ast.parse(code))
    found: dict[str, dict[str, list[str]]] = {}
    for name, fields in filled.items():
        sides = {
            "outside": shortened({place for of in fields for place in places.outside[of]}),
            "own": sorted({place for of in fields for place in places.own[of]}),
        }
        found[name] = {side: told for side, told in sides.items() if told}
    return found


def shortened(places: set[str]) -> list[str]:
    """The places in order, or where they are too many those that refuse and `folder/ (times)` for the others, by the
    first two folders."""
    if len(places) <= MOST:
        return sorted(places)
    folders = Counter("/".join(place.split("/")[:-1][:2]) for place in places if not place.endswith(MARK))
    others = (f"{folder}/ ({times})" for folder, times in folders.items())
    return sorted((*(place for place in places if place.endswith(MARK)), *others))


def _filled(sources: Sources) -> dict[str, set[Field]]:
    """Option by option: the fields that it fills."""
    evaluator = Evaluator(sources)
    owner = evaluator.constant(sources.first(ENGINE), "EngineArgs")
    if not isinstance(owner, ClassRef):
        raise Moved(f"{ENGINE} has no EngineArgs: `read_places` must learn the new place")
    registered = options.registered(sources)
    arguments = classes.fields(evaluator, owner)
    found = {name: {("EngineArgs" if name in arguments else "FrontendArgs", name)} for name in registered.options}
    for name, argument in arguments.items():
        if name in found and argument.default is not None:
            found[name] |= set(_defaulted(argument.default))
    for name, of in _handed_on(owner.node):
        if name in found:
            found[name].add(of)
    objects = dict(registered.config_classes)
    speculative = evaluator.constant(sources.first(SPECULATIVE), "SpeculativeConfig")
    if isinstance(speculative, ClassRef):
        objects["speculative_config"] = speculative
    for name, config in objects.items():
        found |= {f"{name}.{each}": {(config.name, each)} for each in classes.fields(evaluator, config)}
    return dict(sorted(found.items()))


def _defaulted(default: ast.expr) -> Iterator[Field]:
    """The field that an argument has its default from: `CacheConfig.cache_dtype`, `get_field(CacheConfig, "…")`."""
    match default:
        case ast.Attribute(value=ast.Name(id=owner), attr=name):
            yield owner, name
        case ast.Call(args=[ast.Name(id=owner), ast.Constant(value=str() as name)]):
            yield owner, name
        case _:
            pass


def _handed_on(engine_args: ast.ClassDef) -> Iterator[tuple[str, Field]]:
    """Arguments with the fields that config classes are made with: `CacheConfig(block_size=self.block_size)`."""
    for node in ast.walk(engine_args):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        for keyword in node.keywords:
            if keyword.arg is not None and node.func.id.endswith("Config"):
                inner = keyword.value
                if _of_self(inner):
                    yield inner.attr, (node.func.id, keyword.arg)


def _of_self(node: ast.AST) -> TypeGuard[ast.Attribute]:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"


def _receivers(sources: Sources, owners: frozenset[str]) -> dict[str, str]:
    """The names by which config classes are held, with the class: the fields of other config classes, and its own
    name."""
    found = {_snake(owner): owner for owner in owners} | {"args": "FrontendArgs", "engine_args": "EngineArgs"}
    folder = sources.folder / "config"
    if not folder.is_dir():
        raise Moved("there is no folder config: `read_places` must learn where the config classes are")
    for file in sorted(folder.glob("*.py")):
        for node in ast.walk(sources.first(f"config/{file.name}").tree):
            match node:
                case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation):
                    held = owners.intersection(_WORD.findall(ast.unparse(annotation)))
                    if len(held) == 1:
                        found[name] = next(iter(held))
                case _:
                    pass
    return found


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name.replace("LoRA", "Lora")).lower()


class _Places:
    """The places found so far, by field."""

    def __init__(self, wanted: set[Field], receivers: Mapping[str, str]) -> None:
        self.outside: defaultdict[Field, set[str]] = defaultdict(set)
        self.own: defaultdict[Field, set[str]] = defaultdict(set)
        self._wanted = wanted
        self._names = {name for _, name in wanted}
        self._receivers = receivers
        self._classes = frozenset(owner for owner, _ in wanted)
        self._path = ""

    def look_through(self, path: str, tree: ast.Module) -> None:
        """Notes what the file at `path` reads."""
        self._path = path
        self._visit(tree, Scope(), decides=False)

    def _visit(self, node: ast.AST, scope: Scope, *, decides: bool) -> None:
        match node:
            case ast.ClassDef():
                scope = Scope(_below(scope, node.name), node.name, dict(self._bindings(node)))
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                bound = scope.bound | dict(self._annotated(node.args)) | dict(self._bindings(node))
                scope = Scope(_below(scope, node.name), scope.owner, bound)
                self._note_validator(node, scope)
            case ast.If():
                self._visit(node.test, scope, decides=decides or _raises(node.body))
                for each in (*node.body, *node.orelse):
                    self._visit(each, scope, decides=False)
                return
            case ast.Assert():
                self._visit(node.test, scope, decides=True)
                return
            case ast.Attribute(value=receiver, attr=name, ctx=ast.Load()) if name in self._names:
                self._note(receiver, name, scope, decides)
            case ast.Call(func=ast.Name(id="getattr"), args=[receiver, ast.Constant(value=str() as name), *_]):
                if name in self._names:
                    self._note(receiver, name, scope, decides)
            case ast.keyword(value=value) if scope.owner == "EngineArgs" and _of_self(value):
                return  # handed on to a config class, which is looked for by itself
            case _:
                pass
        for child in ast.iter_child_nodes(node):
            self._visit(child, scope, decides=decides)

    def _note(self, receiver: ast.expr, name: str, scope: Scope, decides: bool) -> None:
        mark = MARK if decides else ""
        held = self._held(receiver, scope.bound)
        own = held is None and _key(receiver) in ("self", "cls") and not scope.name.endswith(".compute_hash")
        of = (scope.owner if own else held or "", name)
        if of not in self._wanted:
            return
        if own and scope.owner != "EngineArgs":
            self.own[of].add(f"{scope.name}{mark}")
        else:
            self.outside[of].add(f"{self._path}:{scope.name or '(module)'}{mark}")

    def _note_validator(self, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: Scope) -> None:
        """A method that pydantic calls for some fields (`@field_validator("…")`)."""
        mark = MARK if any(isinstance(inner, ast.Raise) for inner in ast.walk(node)) else ""
        for decorator in node.decorator_list:
            if isinstance(decorator, ast.Call) and ast.unparse(decorator.func).endswith("field_validator"):
                for argument in decorator.args:
                    of = (scope.owner, argument.value if isinstance(argument, ast.Constant) else "")
                    if of in self._wanted:
                        self.own[of].add(f"{scope.name}{mark}")

    def _held(self, receiver: ast.expr, bound: Mapping[str, str]) -> str | None:
        """The config class that the receiver is one of, as far as its binding or its name tells."""
        key = _key(receiver)
        if key in bound:
            return bound[key]
        match receiver:
            case ast.Name(id=last) | ast.Attribute(attr=last):
                last = last.removeprefix("_")
            case _:
                return None
        if last in self._receivers:
            return self._receivers[last]
        # draft_model_config, target_parallel_config and the like
        ends = (last[at + 1 :] for at, letter in enumerate(last) if letter == "_")
        return next((self._receivers[end] for end in ends if end.endswith("config") and end in self._receivers), None)

    def _bindings(self, around: ast.AST) -> Iterator[tuple[str, str]]:
        """Names and attributes of `self` that are bound to a config: `cfg = vllm_config.cache_config`."""
        for node in _statements(around):
            if isinstance(node, ast.Assign) and isinstance(node.value, (ast.Attribute, ast.Name)):
                held = self._held(node.value, {})
                if held is not None:
                    yield from ((key, held) for target in node.targets if (key := _key(target)))

    def _annotated(self, arguments: ast.arguments) -> Iterator[tuple[str, str]]:
        for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            words = () if one.annotation is None else _WORD.findall(ast.unparse(one.annotation))
            yield from ((one.arg, word) for word in words if word in self._classes)


def _key(node: ast.expr) -> str:
    """`name` or `self.name`; empty for all else."""
    if isinstance(node, ast.Name):
        return node.id
    return f"self.{node.attr}" if _of_self(node) else ""


def _statements(around: ast.AST) -> Iterator[ast.AST]:
    """All statements below, without a look into expressions."""
    for part in ("body", "orelse", "finalbody", "handlers", "cases"):
        for one in getattr(around, part, ()):
            yield one
            yield from _statements(one)


def _below(scope: Scope, name: str) -> str:
    return f"{scope.name}.{name}" if scope.name else name


def _raises(body: list[ast.stmt]) -> bool:
    """Whether the statements raise, by themselves or after another `if`."""
    return any(
        isinstance(one, ast.Raise) or (isinstance(one, ast.If) and (_raises(one.body) or _raises(one.orelse)))
        for one in body
    )


def refusing(places: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """Of the places those that refuse."""
    found = {side: [place for place in told if place.endswith(MARK)] for side, told in places.items()}
    return {side: told for side, told in found.items() if told}


SUBJECT = Subject(
    name="read_places",
    table="none: for the options that kvplan does not follow",
    read=read,
    told=None,
    gist=refusing,
    row=lambda name, value, since: f"{name}: {json.dumps(value)}",
)
