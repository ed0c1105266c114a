"""The layers that each worker built: class, backend, cache dtype, KV cache spec."""

from __future__ import annotations

import json
from typing import Any

from tests.oracle.inside.read.plain import plain, spec
from tests.oracle.inside.read.settings import settings
from tests.oracle.inside.versions import attention_layer_classes
from tests.oracle.inside.worker import Worker

ATTRIBUTES = (
    "kv_cache_dtype",
    "sliding_window",
    "num_kv_heads",
    "head_size",
    "head_size_v",
    "use_sparse",
    "attn_type",
)
"""What is told of a layer itself, beside its spec."""


def workers(built: list[Worker]) -> list[dict[str, Any]]:
    """One entry a pipeline stage; equal layers are told once (`layer_kinds`) and named by index (`layers`)."""
    return [_worker(worker) for worker in built]


def _worker(worker: Worker) -> dict[str, Any]:
    specs = _specs(worker)
    context = worker.vllm_config.compilation_config.static_forward_context
    layers, kinds = _kinds(context, specs)
    told: dict[str, Any] = {
        "rank": worker.rank,
        "pp_rank": worker.pp_rank,
        "model_runner": "V2" if worker.v2 else "V1",
        "n_layers_with_spec": len(specs),
        "layers": layers,
        "cfg": settings(worker.vllm_config),
    }
    without_layer = {name: spec(one) for name, one in specs.items() if name not in context}
    if without_layer:
        told["specs_without_layer"] = without_layer
    if worker.shared:
        told["kv_sharing"] = worker.shared
    told["layer_kinds"] = kinds
    return told


def _specs(worker: Worker) -> dict[str, Any]:
    """The worker's specs; none where start-up stopped in making them."""
    if worker.specs is not None:
        return worker.specs
    try:
        return worker.get_kv_cache_spec()
    except Exception:
        return {}


def _kinds(context: dict[str, Any], specs: dict[str, Any]) -> tuple[list[list[Any]], list[dict[str, Any]]]:
    """([name, index of its kind, perhaps the layer whose cache it uses], …) and the kinds."""
    classes = attention_layer_classes()
    kinds: list[dict[str, Any]] = []
    index: dict[str, int] = {}
    layers: list[list[Any]] = []
    for name, layer in context.items():
        if not isinstance(layer, classes):
            continue
        told = _layer(layer, specs.get(name))
        key = json.dumps(told, sort_keys=True, default=str)
        if key not in index:
            index[key] = len(kinds)
            kinds.append({"n": 0, "first": name, **told})
        kinds[index[key]]["n"] += 1
        target = plain(getattr(layer, "kv_sharing_target_layer_name", None))
        layers.append([name, index[key], *([target] if target else ())])
    return layers, kinds


def _layer(layer: Any, own: Any) -> dict[str, Any]:
    return {
        "layer_class": type(layer).__name__,
        **_backend(layer),
        **{f"layer.{name}": plain(getattr(layer, name)) for name in ATTRIBUTES if hasattr(layer, name)},
        "spec": None if own is None else spec(own),
    }


def _backend(layer: Any) -> dict[str, Any]:
    # until 0.9 a layer holds an enumeration
    if not hasattr(layer, "get_attn_backend"):
        return {"backend": layer.backend.name}
    told: dict[str, Any] = {}
    try:
        backend = layer.get_attn_backend()
        try:
            told["backend"] = backend.get_name()
        # backends of state-space layers in old releases have no name
        except NotImplementedError:
            told["backend"] = backend.__name__
        told["backend_class"] = f"{backend.__module__}.{backend.__qualname__}"
    except Exception as error:
        return {**told, "backend": f"<{type(error).__name__}: {str(error)[:200]}>"}
    try:
        told["backend_kernel_block_sizes"] = [
            plain(size) if hasattr(size, "base") else int(size) for size in backend.get_supported_kernel_block_sizes()
        ]
    except Exception:
        # a backend that cannot say has no such entry
        told.pop("backend_kernel_block_sizes", None)
    return told
