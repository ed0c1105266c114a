"""Whether tensor parallelism cuts block-quantised fp8 weights between blocks.

A checkpoint with `weight_block_size` has one scale per block of rows and columns; a rank must own whole blocks.
Sources: `validate_fp8_block_shape` (quantization/utils/fp8_utils.py), `Fp8MoEMethod.create_weights`
(quantization/fp8.py), the linear layers of the model classes named below.

Covered are models built from the usual parts: grouped-query or MLA attention, a dense MLP, routed and shared
experts, for the model classes listed here. Left out: linear-attention layers, other model classes, block scales of
other quantisation methods, multimodal encoders, and layers that only `modules_to_not_convert` of later layers names
(the first attention, dense and expert layer speak for all).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import gcd
from typing import Any

from kvplan.checkpoint.values import Checkpoint
from kvplan.engine.config import EngineConfig
from kvplan.engine.models.by_name import FEED_FORWARD
from kvplan.engine.models.geometry import Kind, LayerGeometry, ModelGeometry
from kvplan.engine.stop import stop
from kvplan.engine.values import Stage
from kvplan.history import checks

_SMALLEST_REFINED_BLOCK = 32


@dataclass(frozen=True, slots=True)
class _Linear:
    """One linear layer on one rank: `rows` and `columns` as block scales see them.

    `columns` are the output sizes of its merged parts a rank, `rows` its input size a rank where that is split.
    """

    name: str
    columns: tuple[int, ...] = ()
    rows: int | None = None
    split: bool = True
    """False for a layer that every rank holds whole."""


@dataclass(frozen=True, slots=True)
class _Experts:
    """Routed experts on one rank: the intermediate size (elements) that is left to it."""

    name: str
    intermediate: int
    hidden: int


_Part = _Linear | _Experts


def check(checkpoint: Checkpoint, geometry: ModelGeometry, config: EngineConfig, *, feed_forward: bool) -> None:
    """Raises StartupStops at the first weight that a rank would own in part of a block.

    `feed_forward` False looks at the linear layers of attention, which vLLM builds before the attention itself;
    True looks at what comes behind it.
    """
    block = _block_size(checkpoint, config)
    if block is None or not geometry.layers:
        return
    text, tensor = checkpoint.text_config, config.tensor_parallel
    parts = _feed_forward(geometry, text, config) if feed_forward else _attention(geometry, text, tensor)
    skipped = _skipped(checkpoint.quantization)
    for part in parts:
        if part.name in skipped:
            continue
        problem = _experts(part, block, config) if isinstance(part, _Experts) else _linear(part, block, tensor)
        if problem is not None:
            message, size, needed = problem
            raise stop(
                Stage.LAYERS,
                "weight_block_split",
                message,
                facts={
                    "weight": part.name,
                    "size": size,
                    "block": needed,
                    "tensor_parallel": tensor,
                    "experts": isinstance(part, _Experts),
                    "expert_parallel": config.expert_parallel,
                },
            )


def _block_size(checkpoint: Checkpoint, config: EngineConfig) -> tuple[int, int] | None:
    section = checkpoint.quantization
    if section is None or section.get("quant_method") != "fp8" or config.quantization_method != "fp8":
        return None
    size = section.get("weight_block_size")
    if not isinstance(size, (list, tuple)) or len(size) != 2:
        return None
    rows, columns = size
    whole = isinstance(rows, int) and isinstance(columns, int) and rows > 0 and columns > 0
    return (rows, columns) if whole else None


def _skipped(section: Mapping[str, Any] | None) -> frozenset[str]:
    """Module names that stay unquantised; a fused module counts where its first part is named."""
    names = {} if section is None else section.get("ignored_layers") or section.get("modules_to_not_convert") or ()
    found = {str(name) for name in names} if isinstance(names, (list, tuple)) else set()
    fused = {"q_proj": "qkv_proj", "gate_proj": "gate_up_proj", "q_a_proj": "fused_qkv_a_proj"}
    for name in tuple(found):
        head, _, last = name.rpartition(".")
        if last in fused:
            found.add(f"{head}.{fused[last]}")
    return frozenset(found)


def _linear(part: _Linear, block: tuple[int, int], tensor: int) -> tuple[str, int, int] | None:
    """vLLM's objection to a linear layer, with the size and the block it compared."""
    block_n, block_k = block
    split = part.split and tensor > 1
    if split and part.rows is not None and part.rows % block_k:
        return (
            f"Weight input_size_per_partition = {part.rows} is not divisible by weight quantization block_k = "
            f"{block_k}.",
            part.rows,
            block_k,
        )
    merged = len(part.columns) > 1
    if not (split or merged):
        return None
    # The last part of a merged layer that is not split may end within a block.
    for size in part.columns if split else part.columns[:-1]:
        if size % block_n:
            return (
                f"Weight output_partition_size = {size} is not divisible by weight quantization block_n = {block_n}.",
                size,
                block_n,
            )
    return None


def _experts(part: _Experts, block: tuple[int, int], config: EngineConfig) -> tuple[str, int, int] | None:
    block_n, block_k = block
    size = part.intermediate
    refined = gcd(block_n, block_k, size, part.hidden) >= _SMALLEST_REFINED_BLOCK
    if refined and config.release.has(checks.FP8_MOE_BLOCKS_ARE_REFINED):
        return None
    if size % block_n:
        return (
            f"The output_size of gate's and up's weight = {size} is not divisible by weight quantization block_n = "
            f"{block_n}.",
            size,
            block_n,
        )
    if config.tensor_parallel > 1 and size % block_k:
        return (
            f"The input_size of down's weight = {size} is not divisible by weight quantization block_k = {block_k}.",
            size,
            block_k,
        )
    return None


def _attention(geometry: ModelGeometry, text: Mapping[str, Any], tensor: int) -> Iterator[_Part]:
    if geometry.architecture not in FEED_FORWARD:
        return
    layer = next((layer for layer in geometry.layers if layer.kind in (Kind.ATTENTION, Kind.MLA)), None)
    if layer is None:
        return
    prefix = f"model.layers.{layer.index}.self_attn"
    if layer.kind is Kind.MLA:
        yield from _latent_projections(layer, text, prefix, tensor)
        return
    heads, kv_heads = layer.num_heads // tensor, max(1, layer.num_kv_heads // tensor)
    value_size = layer.head_size if layer.head_size_v is None else layer.head_size_v
    yield _Linear(
        f"{prefix}.qkv_proj",
        columns=(heads * layer.head_size, kv_heads * layer.head_size, kv_heads * value_size),
    )
    yield _Linear(f"{prefix}.o_proj", rows=heads * value_size)


def _latent_projections(layer: LayerGeometry, text: Mapping[str, Any], prefix: str, tensor: int) -> Iterator[_Part]:
    latent = layer.latent
    if latent is None:
        return
    heads = layer.num_heads // tensor
    row = latent.qk_nope_head_dim + layer.head_size - latent.kv_lora_rank
    query_rank = _size(text, "q_lora_rank")
    if query_rank:
        yield _Linear(f"{prefix}.fused_qkv_a_proj", columns=(query_rank, layer.head_size), split=False)
        yield _Linear(f"{prefix}.q_b_proj", columns=(heads * row,))
    else:
        yield _Linear(f"{prefix}.q_proj", columns=(heads * row,))
    yield _Linear(f"{prefix}.kv_b_proj", columns=(heads * (latent.qk_nope_head_dim + latent.v_head_dim),))
    yield _Linear(f"{prefix}.o_proj", rows=heads * latent.v_head_dim)


def _feed_forward(geometry: ModelGeometry, text: Mapping[str, Any], config: EngineConfig) -> Iterator[_Part]:
    tensor, hidden = config.tensor_parallel, _size(text, "hidden_size")
    match FEED_FORWARD.get(geometry.architecture):
        case "dense":
            yield from _mlp("model.layers.0.mlp", _size(text, "intermediate_size"), tensor)
        case "block_experts":
            yield _routed("model.layers.0.block_sparse_moe.experts", _size(text, "intermediate_size"), hidden, config)
        case "sparse_steps":
            yield from _sparse_steps(text, geometry.num_layers, hidden, config)
        case "shared_experts":
            yield from _shared_experts(text, geometry.num_layers, hidden, config)


def _shared_experts(text: Mapping[str, Any], layers: int, hidden: int, config: EngineConfig) -> Iterator[_Part]:
    first = _size(text, "first_k_dense_replace")
    if first > 0:
        yield from _mlp("model.layers.0.mlp", _size(text, "intermediate_size"), config.tensor_parallel)
    if _size(text, "n_routed_experts") and first < layers:
        prefix, size = f"model.layers.{first}.mlp", _size(text, "moe_intermediate_size")
        shared = _size(text, "n_shared_experts")
        if shared and not _sequence_parallel(config):
            yield from _mlp(f"{prefix}.shared_experts", size * shared, config.tensor_parallel)
        yield _routed(f"{prefix}.experts", size, hidden, config)


def _sparse_steps(text: Mapping[str, Any], layers: int, hidden: int, config: EngineConfig) -> Iterator[_Part]:
    step = max(1, _size(text, "decoder_sparse_step"))
    plain = text.get("mlp_only_layers")
    plain = plain if isinstance(plain, (list, tuple)) else ()
    first = next((index for index in range(step - 1, layers, step) if index not in plain), None)
    if first != 0:
        yield from _mlp("model.layers.0.mlp", _size(text, "intermediate_size"), config.tensor_parallel)
    if first is None:
        return
    prefix = f"model.layers.{first}.mlp"
    shared = _size(text, "shared_expert_intermediate_size")
    if shared:
        yield from _mlp(f"{prefix}.shared_expert", shared, config.tensor_parallel)
    yield _routed(f"{prefix}.experts", _size(text, "moe_intermediate_size"), hidden, config)


def _mlp(prefix: str, intermediate: int, tensor: int) -> Iterator[_Part]:
    share = intermediate // tensor
    yield _Linear(f"{prefix}.gate_up_proj", columns=(share, share))
    yield _Linear(f"{prefix}.down_proj", rows=share)


def _routed(name: str, intermediate: int, hidden: int, config: EngineConfig) -> _Experts:
    """Experts are split over tensor and data parallel ranks, unless expert parallelism keeps each one whole."""
    ranks = config.tensor_parallel * config.data_parallel
    return _Experts(name, intermediate if config.expert_parallel else intermediate // ranks, hidden)


def _sequence_parallel(config: EngineConfig) -> bool:
    """With expert and data parallelism the shared experts stay whole on every rank."""
    return config.expert_parallel and config.tensor_parallel > 1 and config.data_parallel > 1


def _size(text: Mapping[str, Any], name: str) -> int:
    value = text.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
