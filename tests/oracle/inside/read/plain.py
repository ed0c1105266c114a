"""Values of vLLM and torch as JSON has them."""

from __future__ import annotations

import dataclasses
import enum
import json
import re
from typing import Any

import torch

PROPERTIES = (
    "page_size_bytes",
    "real_page_size_bytes",
    "unpadded_page_size_bytes",
    "state_content_bytes",
    "storage_block_size",
    "num_heads",
    "num_states",
    "page_size_padded",
    "head_size_v",
    "type_id",
    "prefix_cacheable",
    "state_size_bytes",
)
"""What a KV cache spec computes from its fields, in one release or another."""

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def plain(value: Any) -> Any:
    """`value` as JSON has it: dtypes and enumerations by name, anything unknown as its text."""
    if isinstance(value, torch.dtype):
        return str(value).removeprefix("torch.")
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, int | float | str | bool) or value is None:
        return value
    if type(value).__name__ == "MultipleOf":
        return f"MultipleOf({value.base})"
    return _ADDRESS.sub("", str(value))


def spec(value: Any) -> dict[str, Any]:
    """A KV cache spec: its class, fields and computed sizes; what raises instead says `<ERROR: …>`."""
    told: dict[str, Any] = {"class": type(value).__name__}
    if dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            held = getattr(value, field.name)
            if field.name == "kv_cache_specs" and isinstance(held, dict):
                told["n_inner_specs"] = len(held)
                told["inner"] = _inner(held)
            else:
                told[field.name] = plain(held)
    for name in PROPERTIES:
        if name in told:
            continue
        try:
            held = getattr(value, name)
        except AttributeError:
            continue
        except Exception as error:
            told[name] = f"<{type(error).__name__}: {error}>"
            continue
        if not callable(held):
            told[name] = plain(held)
    return told


def _inner(specs: dict[str, Any]) -> list[dict[str, Any]]:
    """The specs of a group's layers, equal ones together."""
    layers: dict[str, list[str]] = {}
    for name, one in specs.items():
        layers.setdefault(json.dumps(spec(one), sort_keys=True), []).append(name)
    return [{"spec": json.loads(told), "layers": names} for told, names in layers.items()]
