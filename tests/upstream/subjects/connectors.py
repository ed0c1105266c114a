"""The KV connectors: names, whether they work with the hybrid cache manager, and the cache layout they ask for."""

from __future__ import annotations

import ast
from typing import Any

from kvplan.engine.options import connectors
from kvplan.releases import Release
from tests.upstream import classes
from tests.upstream.evaluate import ClassRef, Evaluator, FunctionRef
from tests.upstream.facts import Facts, Subject
from tests.upstream.sources import Moved, Sources

PLACE = "distributed/kv_transfer/kv_connector/factory.py"
_NEWEST_NAMES = {"NHD": "LBNHC", "HND": "LBHNC"}
"""Layouts by the names that they had before."""


def read(sources: Sources) -> Facts:
    """Connector by connector: `hybrid`, and `layout` by its newest name (None: it asks for none, or asks others)."""
    evaluator = Evaluator(sources, {"os.environ.get": lambda _name, default=None: default})
    found: dict[str, Any] = {}
    for node in ast.walk(sources.first(PLACE).tree):
        match node:
            case ast.Call(func=ast.Attribute(attr="register_connector"), args=[_, _, _] as args):
                name, dotted, class_name = (ast.literal_eval(one) for one in args)
                found[name] = _abilities(evaluator, dotted, class_name)
            case _:
                pass
    if not found:
        raise Moved(f"{PLACE} registers no connector: `connectors` must learn how they are registered")
    return found


def _abilities(evaluator: Evaluator, dotted: str, class_name: str) -> dict[str, Any]:
    module = evaluator.sources.dotted(dotted)
    owner = None if module is None else evaluator.constant(module, class_name)
    if module is not None and not isinstance(owner, ClassRef):
        # LMCache's package may bring the class; without it vLLM's own stands in.
        owner = evaluator.constant(module, f"{class_name}Upstream")
    if not isinstance(owner, ClassRef):
        raise Moved(f"{dotted} has no class {class_name}: `connectors` must learn where it is")
    asked = classes.attribute(evaluator, owner, "get_required_kvcache_layout")
    return {
        "hybrid": classes.has_base(evaluator, owner, "SupportsHMA"),
        "layout": _layout(asked) if isinstance(asked, FunctionRef) else None,
    }


def _layout(function: FunctionRef) -> str | None:
    """The constants that the method returns, `|` between them."""
    returned = {
        _NEWEST_NAMES.get(node.value.value, node.value.value)
        for node in ast.walk(function.node)
        if isinstance(node, ast.Return) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    }
    return "|".join(sorted(returned)) or None


def told(release: Release) -> Facts:
    """kvplan's rows for the release."""
    return {
        one.name: {
            "hybrid": one.works_with_hybrid(release),
            "layout": one.layout if release.within(one.layout_in) else None,
        }
        for one in connectors.CONNECTORS
        if release.within(one)
    }


def row(name: str, value: Any, since: str) -> str:
    """A row of kvplan's table."""
    hybrid = f', hybrid=Span(since="{since}")' if value["hybrid"] else ""
    layout = f', layout="{value["layout"]}"' if value["layout"] else ""
    return f'Connector("{name}", since="{since}"{hybrid}{layout}),'


SUBJECT = Subject(name="connectors", table="engine/options/connectors.py CONNECTORS", read=read, told=told, row=row)
