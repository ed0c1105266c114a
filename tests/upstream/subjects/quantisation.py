"""The quantisation methods: names, least compute capability, model dtypes and files, and which are deprecated."""

from __future__ import annotations

import json
from typing import Any

from kvplan.engine.checks import methods
from kvplan.releases import Release
from tests.upstream import classes, hints
from tests.upstream.evaluate import ClassRef, Evaluator, FunctionRef, LiteralType, Undecided, Unread
from tests.upstream.facts import UNREAD, Facts, Subject
from tests.upstream.sources import Moved, Sources

PLACE = "model_executor/layers/quantization/__init__.py"
_DTYPES = {"half": "float16", "float": "float32"}


def read(sources: Sources) -> Facts:
    """Method by method: `capability`, `dtypes`, `files`, and `deprecated`."""
    lent = {"current_platform.is_cuda": lambda: True, "current_platform.is_rocm": lambda: False}
    evaluator = Evaluator(sources, lent)
    module = sources.first(PLACE)
    names = evaluator.constant(module, "QuantizationMethods")
    config_of = evaluator.constant(module, "get_quantization_config")
    deprecated = evaluator.constant(module, "DEPRECATED_QUANTIZATION_METHODS")
    if not (isinstance(names, LiteralType) and isinstance(config_of, FunctionRef) and isinstance(deprecated, list)):
        raise Moved(
            f"{PLACE} lacks QuantizationMethods, get_quantization_config or DEPRECATED_QUANTIZATION_METHODS: "
            "`quantisation` must learn the new place"
        )
    found: dict[str, dict[str, Any]] = {}
    for name in names.values:
        owner = evaluator.run(config_of, name)
        if not isinstance(owner, ClassRef):
            raise Moved(f"get_quantization_config({name!r}) is {owner}: `quantisation` must learn to follow it")
        found[name] = {
            "capability": _asked(evaluator, owner, "get_min_capability"),
            "dtypes": _asked(evaluator, owner, "get_supported_act_dtypes"),
            "files": _asked(evaluator, owner, "get_config_filenames"),
            "deprecated": name in deprecated,
        }
    return found


def _asked(evaluator: Evaluator, owner: ClassRef, method: str) -> Any:
    function = classes.attribute(evaluator, owner, method)
    if not isinstance(function, FunctionRef):
        raise Moved(f"{owner.name} has no {method}: `quantisation` must learn the new name")
    try:
        value = evaluator.run(function, owner)
    except Undecided:
        return UNREAD
    if isinstance(value, list):
        found = [_dtype(one) for one in value]
        return found if method == "get_supported_act_dtypes" else sorted(found)
    return hints.plain(value)


def _dtype(value: Any) -> Any:
    if not isinstance(value, Unread):
        return value
    name = value.text.removeprefix("torch.")
    return _DTYPES.get(name, name)


def told(release: Release) -> Facts:
    """kvplan's rows for the release."""
    found: dict[str, dict[str, Any]] = {}
    for name in methods.known(release):
        method = methods.lookup(name, release)
        assert method is not None
        found[name] = {
            "capability": method.capability,
            "dtypes": list(method.dtypes),
            "files": sorted(method.files),
            "deprecated": methods.deprecated(name, release),
        }
    return found


def row(name: str, value: Any, since: str) -> str:
    """A row of kvplan's table."""
    dtypes, files = (tuple(value[part]) for part in ("dtypes", "files"))
    tail = f", {files}" if files else ""
    return f"Method({json.dumps(name)}, {value['capability']}, {dtypes}{tail}, since={json.dumps(since)}),"


SUBJECT = Subject(
    name="quantisation", table="engine/checks/methods.py METHODS and _DEPRECATED", read=read, told=told, row=row
)
