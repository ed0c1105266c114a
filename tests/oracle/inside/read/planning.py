"""What the planner made of the specs: tensors, groups, blocks, tokens, concurrency, the lines it logged."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable
from typing import Any

from tests.oracle.inside.read.plain import plain, spec

MOST_TENSORS = 60
"""Kinds of tensors that are told."""
_TOKENS = re.compile(r"KV cache size: ([\d,]+) tokens")
_CONCURRENCY = re.compile(r"Maximum concurrency for ([\d,]+) tokens per request: ([\d.]+)x")


def planning(config: Any, made: list[Any], lines: Iterable[str]) -> dict[str, Any]:
    """The KV cache configs `made`, one a worker, and what `lines` of the log say about them."""
    told = {
        "per_worker": [_worker(one) for one in made],
        "num_gpu_blocks": config.cache_config.num_gpu_blocks,
        **_concurrency(config, made),
    }
    for line in lines:
        _logged(line, told)
    return told


def _worker(made: Any) -> dict[str, Any]:
    # a mapping until 0.9
    tensors = made.kv_cache_tensors if hasattr(made, "kv_cache_tensors") else list(made.tensors.values())
    told: dict[str, Any] = {"num_blocks": made.num_blocks, "groups": [], "n_tensors": len(tensors)}
    told |= _present(made, ("kv_cache_layout", "hash_block_size", "cache_hit_alignment_tokens"))
    told["tensors"] = _tensors(tensors)
    if all(hasattr(tensor, "size") for tensor in tensors):
        told["tensor_bytes_total"] = sum(tensor.size for tensor in tensors)
    for group in made.kv_cache_groups:
        names = list(group.layer_names)
        about = {"n_layers": len(names), "layers": names, "spec": spec(group.kv_cache_spec)}
        told["groups"].append(about | _present(group, ("is_eagle_group", "host_resident")))
    return told


def _tensors(tensors: list[Any]) -> list[dict[str, Any]]:
    """The tensors to allocate, equal ones together."""
    kinds: dict[str, list[Any]] = {}
    for tensor in tensors:
        fields = dataclasses.fields(tensor) if dataclasses.is_dataclass(tensor) else ()
        told = {field.name: plain(getattr(tensor, field.name)) for field in fields}
        layers = told.pop("shared_by", None)
        kinds.setdefault(json.dumps(told, sort_keys=True, default=str), []).append(layers)
    return [
        {"n": len(shared), "first_shared_by": shared[0], **json.loads(told)}
        for told, shared in list(kinds.items())[:MOST_TENSORS]
    ]


def _present(value: Any, names: Iterable[str]) -> dict[str, Any]:
    return {name: plain(getattr(value, name)) for name in names if hasattr(value, name)}


def _concurrency(config: Any, made: list[Any]) -> dict[str, Any]:
    from vllm.v1.core import kv_cache_utils as planner

    if not hasattr(planner, "get_max_concurrency_for_kv_cache_config"):
        from vllm.v1.core import kv_cache_planning as planner
    told: dict[str, Any] = {}
    try:
        whole = planner.generate_scheduler_kv_cache_config(made)
        told["max_concurrency"] = planner.get_max_concurrency_for_kv_cache_config(config, whole)
    except Exception as error:
        told["max_concurrency_error"] = f"{type(error).__name__}: {error}"
        return told
    if hasattr(planner, "get_kv_cache_capacity"):
        told["kv_cache_capacity"] = plain(planner.get_kv_cache_capacity(config, whole))
    return told


def _logged(line: str, told: dict[str, Any]) -> None:
    tokens, concurrency = _TOKENS.search(line), _CONCURRENCY.search(line)
    if tokens is not None:
        told["logged_kv_cache_tokens"] = int(tokens[1].replace(",", ""))
    if concurrency is not None:
        told["logged_max_model_len"] = int(concurrency[1].replace(",", ""))
        told["logged_max_concurrency"] = float(concurrency[2])
    if tokens is not None or (concurrency is not None and line not in told.get("logged_lines", ())):
        told.setdefault("logged_lines", []).append(line)
