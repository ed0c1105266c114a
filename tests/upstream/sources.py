"""The unpacked sources of one vLLM release: files parsed once, and the names that a module binds at its top level.

Nothing of vLLM is imported or run; `ast` reads it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib.resources.abc import Traversable
from pathlib import Path

from tests.oracle.places import sources_home


class Moved(Exception):  # noqa: N818 - a finding about the sources
    """The sources no longer have the shape that a reader expects; the message says what to look for."""


@dataclass(frozen=True, slots=True)
class Imported:
    """A name that a module takes from another: the module's dotted name, and the name there (None: the module)."""

    module: str
    name: str | None


@dataclass(frozen=True)
class Module:
    """One parsed file. `path` is relative to the vllm package: `config/cache.py`."""

    path: str
    tree: ast.Module
    _classes: dict[ast.ClassDef, Mapping[str, ast.AST | Imported]] = field(default_factory=dict, repr=False)

    @property
    def package(self) -> tuple[str, ...]:
        """The dotted name of the package it lies in, as parts: `vllm`, `config`."""
        return ("vllm", *Path(self.path).parent.parts)

    @cached_property
    def names(self) -> Mapping[str, ast.AST | Imported]:
        """What each top-level name is bound to last: its value, class, function or import; of `try` the body counts."""
        return bindings(self.tree.body, self.package)

    def of_class(self, node: ast.ClassDef) -> Mapping[str, ast.AST | Imported]:
        """What the body of a class of this module binds names to."""
        if node not in self._classes:
            self._classes[node] = bindings(node.body, self.package)
        return self._classes[node]

    @cached_property
    def stars(self) -> tuple[str, ...]:
        """The modules that it takes all names from."""
        return tuple(
            imported_from(node, self.package)
            for node in self.tree.body
            if isinstance(node, ast.ImportFrom) and node.names[0].name == "*"
        )


def bindings(body: list[ast.stmt], package: tuple[str, ...]) -> dict[str, ast.AST | Imported]:
    """What the statements of `body` bind names to, as on a CUDA platform where nothing is type-checked.

    Names that only the branch not taken binds are kept too: annotations may mean them.
    """
    found: dict[str, ast.AST | Imported] = {}
    for statement in body:
        match statement:
            case ast.Assign(targets=targets, value=value):
                found |= {target.id: value for target in targets if isinstance(target, ast.Name)}
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.AST() as value):
                found[name] = value
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                found[statement.name] = statement
            case ast.Import(names=names):
                for alias in names:
                    found[alias.asname or alias.name.split(".")[0]] = Imported(
                        alias.name if alias.asname else alias.name.split(".")[0], None
                    )
            case ast.ImportFrom():
                source = imported_from(statement, package)
                found |= {alias.asname or alias.name: Imported(source, alias.name) for alias in statement.names}
            case ast.If(test=test):
                then, otherwise = bindings(statement.body, package), bindings(statement.orelse, package)
                found = then | found | otherwise if holds(test) is False else otherwise | found | then
            case ast.Try():
                found |= bindings(statement.body, package)
            case _:
                pass
    return found


_TRUE = ("is_cuda", "is_cuda_alike")
_FALSE = ("is_rocm", "is_xpu", "is_cpu", "is_tpu", "is_out_of_tree")


def holds(test: ast.expr) -> bool | None:
    """Whether a condition at the top of a module holds on a CUDA platform at run time; None: not known."""
    match test:
        case ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING"):
            return False
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            value = holds(inner)
            return None if value is None else not value
        case ast.Call(func=ast.Attribute(attr=name)) if name in _TRUE or name in _FALSE:
            return name in _TRUE
        case _:
            return None


def imported_from(statement: ast.ImportFrom, package: tuple[str, ...]) -> str:
    """The dotted name of the module that the statement imports from."""
    if not statement.level:
        return statement.module or ""
    base = package[: len(package) - statement.level + 1]
    return ".".join((*base, *((statement.module,) if statement.module else ())))


@dataclass(frozen=True)
class Sources:
    """The `vllm` package of one release, unpacked at `folder`."""

    release: str
    folder: Path
    _modules: dict[str, Module | None] = field(default_factory=dict)

    def module(self, path: str) -> Module | None:
        """The file at `path` below the vllm package, None where there is none."""
        if path not in self._modules:
            file = self.folder / path
            self._modules[path] = Module(path, ast.parse(file.read_text("utf-8"))) if file.is_file() else None
        return self._modules[path]

    def first(self, *paths: str) -> Module:
        """The first of `paths` that exists. Raises Moved where none does."""
        for path in paths:
            found = self.module(path)
            if found is not None:
                return found
        raise Moved(f"none of {', '.join(paths)} exists in {self.release}: look for the file's new place")

    def dotted(self, name: str) -> Module | None:
        """The module `vllm.config.cache`, package or file; None outside vLLM."""
        parts = name.split(".")
        if parts[0] != "vllm":
            return None
        path = "/".join(parts[1:])
        return self.module(f"{path}.py" if path else "__init__.py") or self.module(f"{path}/__init__.py")

    def binding(self, module: Module, name: str) -> ast.AST | Imported | None:
        """What `name` is bound to in `module`, by itself or by a star import from another module of vLLM."""
        if name in module.names:
            return module.names[name]
        for dotted in module.stars:
            source = self.dotted(dotted)
            if source is not None and name in source.names:
                return Imported(dotted, name)
        return None

    def files(self) -> Iterator[Path]:
        """All Python files, in order."""
        return iter(sorted(self.folder.rglob("*.py")))


def python_files(folder: Traversable) -> Iterator[Traversable]:
    """All Python files below a folder of an installed package."""
    for entry in sorted(folder.iterdir(), key=lambda one: one.name):
        if entry.is_dir():
            yield from python_files(entry)
        elif entry.name.endswith(".py"):
            yield entry


def open_release(release: str, folder: Path | None = None) -> Sources:
    """The sources of `release` in `folder`: the vllm package itself, a folder around it, or one with all releases.

    Raises FileNotFoundError where there are none.
    """
    base = sources_home() / f"vllm-{release}" if folder is None else folder
    for place in (base, base / "vllm", base / f"vllm-{release}" / "vllm"):
        if (place / "engine" / "arg_utils.py").is_file():
            return Sources(release, place)
    raise FileNotFoundError(f"{base} holds no unpacked vLLM {release} (no engine/arg_utils.py below it)")
