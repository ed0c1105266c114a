"""After planning: the block sizes of the kernels, and the views of the buffers, by the release's own code.

Buffers are meta tensors: allocation costs nothing, and a view that does not fit fails as it would on a GPU. The stages
are `kernel_block_size` and `kv_cache_view`.
"""

from __future__ import annotations

import collections
import dataclasses
import inspect
import itertools
from collections.abc import Callable
from typing import Any

import torch

from tests.oracle.inside.answer import Answer
from tests.oracle.inside.read.plain import plain
from tests.oracle.inside.versions import attention_layer_classes, layers_from_config, v2_by_config
from tests.oracle.inside.worker import Worker

OF_A_VIEW = ("invalid for input of size", "view size", "setStorage", "not divisible")
"""What torch says where a view does not fit its buffer; other RuntimeErrors are of the pretended device."""


class _NotLookedError(Exception):
    """Something that cannot be looked at here; the message goes into the answer's notes."""


def look(config: Any, workers: list[Worker], planned: list[Any], answer: Answer) -> None:
    """Add `kernel_block_sizes` and `kv_views`; raises what vLLM raises where sizes or views do not fit."""
    from vllm.config import set_current_vllm_config

    if not planned:
        return
    views: list[Any] = []
    sizes: list[Any] = []
    try:
        for worker, made in zip(workers, planned, strict=False):
            with set_current_vllm_config(worker.vllm_config, check_compile=False):
                groups = _attempt("groups not built", 200, _groups, worker, made)
                split = _sizes(worker, made, groups, answer)
                if split is not None:
                    sizes.append(plain(split))
                    answer.told["kernel_block_sizes"] = sizes
                views.append(_views(worker, made, groups, split, answer))
    except _NotLookedError as why:
        answer.note(f"view check: {why}")
        return
    if views:
        answer.told["kv_views"] = views[0] if len(views) == 1 else views


def _attempt(what: str, longest: int, function: Callable[..., Any], *args: Any) -> Any:
    """`function(*args)`; raises _NotLookedError where it fails."""
    try:
        return function(*args)
    except _NotLookedError:
        raise
    except Exception as error:
        raise _NotLookedError(f"{what} ({type(error).__name__}: {str(error)[:longest]})") from error


def _groups(worker: Worker, made: Any) -> list[list[Any]]:
    """The attention groups of each KV cache group: layers of one backend and one spec together."""
    import vllm.v1.kv_cache_interface as interface

    find = layers_from_config()
    if find is None:
        raise _NotLookedError("not in this release")
    group_of = _group_maker()
    uniform = getattr(interface, "UniformTypeKVCacheSpecs", ())
    groups: list[list[Any]] = []
    for number, group in enumerate(made.kv_cache_groups):
        held: dict[Any, Any] = {}
        spec = group.kv_cache_spec
        layers = {}
        if getattr(spec, "has_layer_views", True):
            layers = find(worker.vllm_config, attention_layer_classes(), group.layer_names)
        for name, layer in layers.items():
            own = spec.kv_cache_specs[name] if isinstance(spec, uniform) else spec
            backend = layer.get_attn_backend()
            key = backend.__qualname__, own
            if key in held:
                held[key].layer_names.append(name)
            else:
                held[key] = group_of(backend=backend, layer_names=[name], kv_cache_spec=own, kv_cache_group_id=number)
        groups.append(list(held.values()))
    return groups


def _group_maker() -> Callable[..., Any]:
    """Makes the release's AttentionGroup, whose fields changed, of those that it has."""
    try:
        from vllm.v1.worker.utils import AttentionGroup
    except ImportError as error:
        raise _NotLookedError("no AttentionGroup in this release") from error
    fields = {field.name for field in dataclasses.fields(AttentionGroup)}

    def make(**given: Any) -> Any:
        given |= {"metadata_builder": None, "metadata_builders": []}
        return AttentionGroup(**{name: value for name, value in given.items() if name in fields})

    return make


def _sizes(worker: Worker, made: Any, groups: list[list[Any]], answer: Answer) -> Any:
    """The kernels' block sizes, one a group; None until 0.11.0, which splits no block."""
    try:
        return _sizes_by_release(worker, made, groups)
    except (ValueError, AssertionError, NotImplementedError):
        answer.stage = "kernel_block_size"
        raise
    except Exception as error:
        text = f"kernel block sizes not computed ({type(error).__name__}: {str(error)[:200]})"
        raise _NotLookedError(text) from error


def _sizes_by_release(worker: Worker, made: Any, groups: list[list[Any]]) -> Any:
    from vllm.v1.worker import utils

    if hasattr(utils, "prepare_kernel_block_sizes"):
        return utils.prepare_kernel_block_sizes(made, groups)
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    if not hasattr(GPUModelRunner, "_prepare_kernel_block_sizes"):
        return None
    return worker.bare_runner(GPUModelRunner, made, groups)._prepare_kernel_block_sizes(made)


def _views(worker: Worker, made: Any, groups: list[list[Any]], split: Any, answer: Answer) -> dict[str, int] | None:
    """Shape and dtype of a layer's view to the number of layers that have it."""
    try:
        return _views_by_release(worker, made, groups, split)
    except (RuntimeError, ValueError, AssertionError, NotImplementedError) as error:
        if isinstance(error, RuntimeError) and not any(words in str(error) for words in OF_A_VIEW):
            raise _NotLookedError(f"{type(error).__name__}: {str(error)[:300]}") from error
        answer.stage = "kv_cache_view"
        raise
    except Exception as error:
        raise _NotLookedError(f"not run ({type(error).__name__}: {str(error)[:300]})") from error


def _views_by_release(worker: Worker, made: Any, groups: list[list[Any]], split: Any) -> dict[str, int] | None:
    import vllm.v1.kv_cache_interface as interface

    flat = list(itertools.chain.from_iterable(groups))
    held: dict[str, Any] | None
    if hasattr(interface, "create_kv_cache_views"):
        held = _views_of_tensors(interface, worker, made, flat, split)
    elif v2_by_config(worker.vllm_config):
        held = _views_of_v2(worker, made, flat, split)
    else:
        held = _views_of_v1(worker, made, groups, split)
    if held is None:
        return None
    return dict(collections.Counter(_shown(view) for view in held.values()))


def _shown(view: Any) -> str:
    if not hasattr(view, "shape"):
        return "state"
    return f"{tuple(view.shape)} {str(view.dtype).removeprefix('torch.')}"


def _views_of_tensors(interface: Any, worker: Worker, made: Any, flat: list[Any], split: Any) -> dict[str, Any]:
    """Releases that make the views of each planned tensor."""
    layout = worker.vllm_config.cache_config.get_resolved_kv_cache_layout()
    by_layer = {name: group for group in flat for name in group.layer_names}
    held: dict[str, Any] = {}
    for tensor in made.kv_cache_tensors:
        group = by_layer.get(tensor.layers[0])
        if group is None:
            continue
        spec = group.kv_cache_spec
        if not isinstance(spec, interface.AttentionSpec):
            held.update(dict.fromkeys(tensor.layers))
            continue
        raw = torch.empty(tensor.size, dtype=torch.int8, device=torch.device("meta"))
        number = group.kv_cache_group_id
        size = split[number] if number < len(split) else None
        made_views = interface.create_kv_cache_views(raw, spec, made.num_blocks, layout, tensor, size)
        held.update(zip(tensor.layers, made_views, strict=False))
    return held


def _views_of_v2(worker: Worker, made: Any, flat: list[Any], split: Any) -> dict[str, Any]:
    """The V2 runner's functions, whose parameters changed."""
    from vllm.v1.worker.gpu import attn_utils

    given = {
        "kv_cache_config": made,
        "shared_layers": {},
        "shared_kv_cache_layers": {},
        "device": torch.device("meta"),
        "attn_groups": flat,
        "attn_backends": {name: group.backend for group in flat for name in group.layer_names},
        "cache_dtype": worker.vllm_config.cache_config.cache_dtype,
        "kernel_block_sizes": split,
    }
    given["kv_cache_raw_tensors"] = _called(attn_utils._allocate_kv_cache, given)
    held: dict[str, Any] = _called(attn_utils._reshape_kv_cache, given)
    return held


def _views_of_v1(worker: Worker, made: Any, groups: list[list[Any]], split: Any) -> dict[str, Any] | None:
    """The V1 runner's methods; None where it has no such method."""
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    runner = worker.bare_runner(GPUModelRunner, made, groups)
    raw = runner._allocate_kv_cache_tensors(made)
    if not hasattr(runner, "_reshape_kv_cache_tensors"):
        return None
    given = {"kv_cache_config": made, "kv_cache_raw_tensors": raw, "kernel_block_sizes": split}
    held: dict[str, Any] = _called(runner._reshape_kv_cache_tensors, given)
    return held


def _called(function: Callable[..., Any], given: dict[str, Any]) -> Any:
    return function(**{name: given[name] for name in inspect.signature(function).parameters if name in given})
