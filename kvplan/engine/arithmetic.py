"""The last links of the trace: from a layer's cache dtype to its page, and from pages to what fits.

The stages before tell why a value became what it is; these tell the arithmetic, with the numbers in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from kvplan.engine.cache_dtypes.dtypes import ITEM_BYTES
from kvplan.engine.models.geometry import Role
from kvplan.engine.specs.base import LayerSpec, MambaSpec, MLAAttentionSpec
from kvplan.engine.values import Capacity, Group, LayerPlan, Stage, Step
from kvplan.history import capacity as history
from kvplan.releases import Release


def layer_steps(layers: Sequence[LayerPlan], specs: Mapping[str, LayerSpec], told: Sequence[Step]) -> tuple[Step, ...]:
    """How each layer's page comes about, from the spec it asked for; layers with equal links share them. `told` is the
    trace so far."""
    reached = {index for step in told if step.value == "layer.cache_dtype" for index in step.layers}
    alike: dict[tuple[object, ...], list[LayerPlan]] = {}
    for layer in layers:
        asked, got = specs[layer.name], (layer.block_size, layer.page_bytes)
        alike.setdefault((asked, layer.role, layer.cache_dtype, got, layer.index in reached), []).append(layer)
    shared: dict[Step, list[int]] = {}
    for (*_, dtype_told), members in alike.items():
        for step in _one_layer(members[0], specs[members[0].name], inherits=not dtype_told):
            shared.setdefault(step, []).extend(layer.index for layer in members)
    return tuple(replace(step, layers=tuple(sorted(indices))) for step, indices in shared.items())


def _one_layer(layer: LayerPlan, spec: LayerSpec, *, inherits: bool) -> Iterator[Step]:
    who = "" if layer.role in (Role.ATTENTION, Role.STATE) else f"{layer.role}: "
    if inherits and layer.cache_dtype is not None and layer.storage_dtype is not None:
        yield Step(Stage.LAYERS, "layer.cache_dtype", layer.cache_dtype, f"{who}the launch-wide cache dtype")
    if layer.storage_dtype is not None:
        mode = "" if layer.quant_mode is None else f", quant mode {layer.quant_mode}"
        source = "the module's own dtype" if layer.cache_dtype is None else _stored_as(layer.cache_dtype)
        yield Step(Stage.SPECS, "layer.storage_dtype", layer.storage_dtype, f"{who}{source}{mode}")
    yield Step(Stage.SPECS, "layer.page_bytes", f"{layer.spec_page_bytes:,}", f"{who}{_formula(spec)}{_padding(spec)}")
    if (layer.block_size, layer.page_bytes) != (layer.spec_block_size, layer.spec_page_bytes):
        yield Step(Stage.GROUPING, "layer.page_bytes", f"{layer.page_bytes:,}", f"{who}{_unified(layer)}")


def _stored_as(cache_dtype: str) -> str:
    return "the model's own dtype, as auto says" if cache_dtype == "auto" else f"how {cache_dtype} is stored"


def _formula(spec: LayerSpec) -> str:
    """The page before padding as a product: with heads and head sizes where they give it, else with bytes a row."""
    if isinstance(spec, MambaSpec):
        states = (f"{shape} {dtype}" for shape, dtype in zip(spec.shapes, spec.dtypes, strict=True))
        return f"one state: {' + '.join(states)}"
    tokens, heads, key = spec.block_size, spec.num_kv_heads, spec.head_size
    value, item = key if spec.head_size_v is None else spec.head_size_v, ITEM_BYTES[spec.dtype]
    per_row = spec.tokens_per_state if isinstance(spec, MLAAttentionSpec) else 1
    if per_row != 1:
        return f"{tokens} tokens, one row for {per_row}: {tokens // per_row} x {spec.token_bytes:,} B"
    if spec.token_bytes == heads * (key + value) * item:
        width = f"({key} + {value})" if value else f"{key}"
        return f"{tokens} tokens x {heads} KV head{'s' * (heads != 1)} x {width} x {item} B"
    if heads > 1 and spec.token_bytes % heads == 0:
        return f"{tokens} tokens x {heads} KV heads x {spec.token_bytes // heads:,} B"
    return f"{tokens} tokens x {spec.token_bytes:,} B"


def _padding(spec: LayerSpec) -> str:
    padded = spec.page_size_padded
    return "" if padded in (None, spec.unpadded_page_bytes) else f" = {spec.unpadded_page_bytes:,} B, padded"


def _unified(layer: LayerPlan) -> str:
    before, after = layer.spec_block_size, layer.block_size
    grown = layer.spec_page_bytes * after // before
    if layer.page_bytes == grown and after != before:
        return f"the block goes from {before} to {after} tokens, so that all pages are equal"
    if after == before:
        return f"padded from {layer.spec_page_bytes:,} B to the common page"
    return f"the block goes from {before} to {after} tokens, and {grown:,} B are padded to the common page"


def _blocks(count: float) -> str:
    """`: 8,192 blocks`, where it is a whole number: layers under one table may need different ones."""
    return f": {round(count):,} blocks" if count and abs(count - round(count)) < 1e-6 * count else ""


def capacity_steps(capacity: Capacity | None, groups: Sequence[Group], release: Release) -> tuple[Step, ...]:
    """How blocks, tokens and concurrency come about."""
    if capacity is None or not capacity.bytes_per_block:
        return ()
    return tuple(_capacity(capacity, capacity.bytes_per_block, groups, release))


def _capacity(capacity: Capacity, per_block: int, groups: Sequence[Group], release: Release) -> Iterator[Step]:
    where = "one block in each layer of the largest group" if len(groups) > 1 else "one block in every layer"
    yield Step(Stage.CAPACITY, "capacity.bytes_per_block", f"{per_block:,}", f"{where}, on one GPU")
    length = f"{capacity.max_model_len:,}"
    if capacity.needed_bytes is not None:
        first_only = release.has(history.ADMISSION_COUNTS_FIRST_GROUP_ONLY)
        yield Step(
            Stage.CAPACITY,
            "capacity.needed_bytes",
            f"{capacity.needed_bytes:,}",
            f"one request of {length} tokens{_blocks(capacity.needed_bytes / per_block)}",
            behaviour=history.ADMISSION_COUNTS_FIRST_GROUP_ONLY if first_only and len(groups) > 1 else None,
        )
    if capacity.num_blocks is None or capacity.available_bytes is None:
        return
    if capacity.estimate is not None:
        yield Step(
            Stage.CAPACITY,
            "capacity.available_bytes",
            f"{capacity.available_bytes:,}",
            f"an estimate, on the high side: {capacity.estimate.budget_bytes:,} B that may be used less "
            f"{capacity.estimate.weight_bytes or 0:,} B of weights",
            option="--gpu-memory-utilization",
        )
    if capacity.num_blocks == max(0, capacity.available_bytes) // per_block:
        cause = f"{capacity.available_bytes:,} B // {per_block:,} B"
        yield Step(Stage.CAPACITY, "capacity.num_blocks", f"{capacity.num_blocks:,}", cause)
    else:
        cause = "what the GPU of the pipeline with the least room holds, or --num-gpu-blocks-override"
        yield Step(Stage.CAPACITY, "capacity.num_blocks", f"{capacity.num_blocks:,}", cause)
    if capacity.max_concurrency is not None and capacity.tokens is not None:
        requests = f"{capacity.max_concurrency:.4g}"
        each = capacity.num_blocks / capacity.max_concurrency if capacity.max_concurrency else 0
        yield Step(
            Stage.CAPACITY,
            "capacity.max_concurrency",
            requests,
            f"how often {capacity.num_blocks:,} blocks hold a request of {length} tokens{_blocks(each)}",
        )
        from_requests = release.has(history.TOKENS_FROM_CONCURRENCY)
        yield Step(
            Stage.CAPACITY,
            "capacity.tokens",
            f"{capacity.tokens:,}",
            f"{requests} requests x {length} tokens"
            if from_requests
            else f"{capacity.num_blocks:,} blocks // {len(groups)} groups x tokens a block",
            behaviour=history.TOKENS_FROM_CONCURRENCY if from_requests else None,
        )
