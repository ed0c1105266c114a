"""The cache dtypes: the strings that `--kv-cache-dtype` takes, how each is stored, and its quant mode."""

from __future__ import annotations

import json
from typing import Any

from kvplan.engine.cache_dtypes import dtypes
from kvplan.releases import Release
from tests.upstream.evaluate import Evaluator, FunctionRef, LiteralType, Member, Unread
from tests.upstream.facts import Facts, Subject
from tests.upstream.sources import Moved, Sources

PLACE = "config/cache.py"
STORAGE = "utils/torch_utils.py"
MODES = "v1/kv_cache_interface.py"


def read(sources: Sources) -> Facts:
    """String by string: `storage` (None: the model's own) and `mode` (None: the release has no modes)."""
    evaluator = Evaluator(sources, {"get_kv_cache_dtype_handler": lambda _name: None})
    names = evaluator.constant(sources.first(PLACE), "CacheDType")
    if not isinstance(names, LiteralType):
        raise Moved(f"{PLACE} has no CacheDType: `cache_dtypes` must learn the new place")
    stored = evaluator.constant(sources.first(STORAGE), "STR_DTYPE_TO_TORCH_DTYPE")
    if not isinstance(stored, dict):
        raise Moved(f"{STORAGE} has no STR_DTYPE_TO_TORCH_DTYPE: `cache_dtypes` must learn the new place")
    mode = evaluator.constant(sources.first(MODES), "get_kv_quant_mode")
    return {
        name: {
            "storage": _storage(stored.get(name)),
            "mode": _mode(evaluator, mode, name) if isinstance(mode, FunctionRef) else None,
        }
        for name in names.values
    }


def _storage(value: Any) -> str | None:
    return value.text.removeprefix("torch.") if isinstance(value, Unread) else None


def _mode(evaluator: Evaluator, function: FunctionRef, name: str) -> str:
    found = evaluator.run(function, name)
    if not isinstance(found, Member):
        raise Moved(f"get_kv_quant_mode returns {found} for {name}: `cache_dtypes` must learn to read it")
    return found.name


def told(release: Release) -> Facts:
    """kvplan's rows for the release."""
    return {
        name: {"storage": dtypes.lookup(name).storage, "mode": dtypes.quant_mode(name, release)}
        for name in dtypes.known(release)
    }


def row(name: str, value: Any, since: str) -> str:
    """A row of kvplan's table; whether pages have a formula of their own (`packed=True`) is for the reader to see."""
    return f'CacheDtype("{name}", {json.dumps(value["storage"])}, "{value["mode"]}", since="{since}"),'


SUBJECT = Subject(
    name="cache_dtypes", table="engine/cache_dtypes/dtypes.py CACHE_DTYPES", read=read, told=told, row=row
)
