"""Where a release's sources read an option: the places that take the attribute of its name."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.upstream.sources import Sources


def places(sources: Sources, names: frozenset[str]) -> Iterator[tuple[str, str]]:
    """`file:function` and the expression, for every reading of an attribute called one of `names`.

    An attribute is told by its name alone: two classes may have fields of the same name.
    """
    for file in sources.files():
        code = file.read_text("utf-8")
        if not any(name in code for name in names):
            continue
        path = file.relative_to(sources.folder).as_posix()
        for function, node in _inside(ast.parse(code), ""):
            match node:
                case ast.Attribute(attr=name, ctx=ast.Load()) if name in names:
                    yield f"{path}:{function or '(module)'}", ast.unparse(node)
                case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value=str() as name), *_]):
                    if name in names:
                        yield f"{path}:{function or '(module)'}", ast.unparse(node)
                case _:
                    pass


def _inside(node: ast.AST, around: str) -> Iterator[tuple[str, ast.AST]]:
    """All nodes below, each with the function or class around it."""
    for child in ast.iter_child_nodes(node):
        name = around
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            name = f"{around}.{child.name}" if around else child.name
        yield name, child
        yield from _inside(child, name)
