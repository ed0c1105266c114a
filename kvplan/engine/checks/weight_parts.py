"""The weights of a model as one tensor-parallel rank holds them: what quantisation schemes are asked about.

Sources: the linear layers of the model classes in `by_name.FEED_FORWARD` and `FusedMoE`.

Covered are models built from the usual parts: grouped-query or MLA attention, a dense MLP, routed and shared experts.
Left out: other model classes, most multimodal encoders, and layers that are quantised otherwise than the first of their
kind (the first attention, dense and expert layer speak for all).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kvplan.engine.config import EngineConfig
from kvplan.engine.models.by_name import FEED_FORWARD, GATES_ATTENTION
from kvplan.engine.models.geometry import Kind, LayerGeometry, ModelGeometry, Tower
from kvplan.engine.models.towers import FORMS


@dataclass(frozen=True, slots=True)
class Linear:
    """One linear layer on one rank, sizes in elements."""

    name: str
    columns: tuple[int, ...]
    """Output sizes of its merged parts on the rank."""
    rows: int
    """Its input size on the rank."""
    all_rows: int
    """Its input size on all ranks together."""
    split: bool = True
    """False for a layer that every rank holds whole."""

    @property
    def takes_rows(self) -> bool:
        """Whether ranks divide its input; else they divide its output."""
        return self.rows != self.all_rows

    @property
    def width(self) -> int:
        """Its output size on the rank."""
        return sum(self.columns)


@dataclass(frozen=True, slots=True)
class Experts:
    """Routed experts on one rank: the intermediate size (elements) that is left to it."""

    name: str
    intermediate: int
    hidden: int


Part = Linear | Experts


def parts(
    geometry: ModelGeometry,
    text: Mapping[str, Any],
    config: EngineConfig,
    *,
    feed_forward: bool,
    towers_whole: bool = False,
) -> Iterator[Part]:
    """The weights of attention, or of what comes behind it; none for a class whose weights are not followed.

    `towers_whole` is `--mm-encoder-tp-mode data`, which keeps the towers of some classes whole on every rank.
    """
    if not feed_forward:
        for tower in geometry.towers:
            yield from _tower(tower, 1 if towers_whole and tower.whole_on_request else config.tensor_parallel)
    if geometry.architecture not in FEED_FORWARD:
        return
    if feed_forward:
        yield from _feed_forward(geometry, text, config)
    else:
        yield from _states(geometry, text, config.tensor_parallel)
        yield from _attention(geometry, text, config.tensor_parallel)


def _tower(tower: Tower, tensor: int) -> Iterator[Part]:
    """The first layer of a tower that is quantised like the decoder, before which it is built."""
    inner = tower.sizes[0][1] if tower.sizes else None
    if tower.layer is None or tower.width is None or inner is None:
        return
    width, share = tower.width, tower.width // tensor
    if tower.merger is not None:
        taken, made = tower.merger
        head = tower.layer.partition(".")[0]
        yield _columns(f"{head}.merger.linear_fc1", taken, taken // tensor)
        yield _rows(f"{head}.merger.linear_fc2", taken, tensor, made)
    qkv, out, up, down = (f"{tower.layer}.{name}" for name in FORMS[tower.form])
    yield _columns(qkv, width, share, share, share)
    yield _rows(out, width, tensor, width)
    yield _columns(up, width, *[inner // tensor] * (2 if tower.form == "gated" else 1))
    yield _rows(down, inner, tensor, width)


def _attention(geometry: ModelGeometry, text: Mapping[str, Any], tensor: int) -> Iterator[Part]:
    layer = next((layer for layer in geometry.layers if layer.kind in (Kind.ATTENTION, Kind.MLA)), None)
    if layer is None:
        return
    if layer.kind is Kind.MLA:
        yield from _latent_projections(layer, text, f"{_layers(geometry)}.{layer.index}.self_attn", tensor)
        return
    prefix = layer.name.removesuffix(".attn")
    heads, kv_heads = layer.total_heads // tensor, max(1, layer.total_kv_heads // tensor)
    value_size = layer.head_size if layer.head_size_v is None else layer.head_size_v
    gates = heads if geometry.architecture in GATES_ATTENTION else 0
    yield _columns(
        f"{prefix}.qkv_proj",
        _size(text, "hidden_size"),
        (heads + gates) * layer.head_size,
        kv_heads * layer.head_size,
        kv_heads * value_size,
    )
    yield _rows(f"{prefix}.o_proj", layer.total_heads * value_size, tensor, _size(text, "hidden_size"))


def _latent_projections(layer: LayerGeometry, text: Mapping[str, Any], prefix: str, tensor: int) -> Iterator[Part]:
    latent = layer.latent
    if latent is None:
        return
    heads, hidden = layer.total_heads // tensor, _size(text, "hidden_size")
    row = latent.qk_nope_head_dim + layer.head_size - latent.kv_lora_rank
    query_rank = _size(text, "q_lora_rank")
    if query_rank:
        yield _columns(f"{prefix}.fused_qkv_a_proj", hidden, query_rank, layer.head_size, split=False)
        yield _columns(f"{prefix}.q_b_proj", query_rank, heads * row)
    else:
        yield _columns(f"{prefix}.q_proj", hidden, heads * row)
    values = latent.qk_nope_head_dim + latent.v_head_dim
    yield _columns(f"{prefix}.kv_b_proj", latent.kv_lora_rank, heads * values)
    yield _rows(f"{prefix}.o_proj", layer.total_heads * latent.v_head_dim, tensor, hidden)


def _states(geometry: ModelGeometry, text: Mapping[str, Any], tensor: int) -> Iterator[Part]:
    """The projections of gated delta net layers: queries, keys, values and gates together, and two scalars a head."""
    layer = next((layer for layer in geometry.layers if layer.kind is Kind.STATE), None)
    keys = _size(text, "linear_num_key_heads") * _size(text, "linear_key_head_dim")
    heads = _size(text, "linear_num_value_heads")
    values, hidden = heads * _size(text, "linear_value_head_dim"), _size(text, "hidden_size")
    if layer is None or not keys or not values:
        return
    prefix = f"{_layers(geometry)}.{layer.index}.linear_attn"
    yield _columns(f"{prefix}.in_proj_qkvz", hidden, (2 * keys + 2 * values) // tensor)
    yield _columns(f"{prefix}.in_proj_ba", hidden, 2 * heads // tensor)
    yield _rows(f"{prefix}.out_proj", values, tensor, hidden)


def _columns(name: str, rows: int, *columns: int, split: bool = True) -> Linear:
    """A layer whose output the ranks divide."""
    return Linear(name, columns, rows, rows, split)


def _rows(name: str, rows: int, tensor: int, columns: int) -> Linear:
    """A layer whose input the ranks divide."""
    return Linear(name, (columns,), rows // tensor, rows)


def _feed_forward(geometry: ModelGeometry, text: Mapping[str, Any], config: EngineConfig) -> Iterator[Part]:
    tensor, hidden, layers = config.tensor_parallel, _size(text, "hidden_size"), _layers(geometry)
    match FEED_FORWARD.get(geometry.architecture):
        case "dense":
            yield from _mlp(f"{layers}.0.mlp", _size(text, "intermediate_size"), hidden, tensor)
        case "dense_and_experts":
            yield from _mlp(f"{layers}.0.mlp", _size(text, "intermediate_size"), hidden, tensor)
            size = _size(text, "moe_intermediate_size") or _size(text, "expert_intermediate_size")
            if _size(text, "num_experts") and size:
                yield _routed(f"{layers}.0.moe.experts", size, hidden, config)
        case "block_experts":
            yield _routed(f"{layers}.0.block_sparse_moe.experts", _size(text, "intermediate_size"), hidden, config)
        case "open_experts":
            yield _routed(f"{layers}.0.mlp.experts", _size(text, "intermediate_size"), hidden, config)
        case "sparse_steps":
            yield from _sparse_steps(text, geometry.num_layers, hidden, config, layers)
        case "mixer_experts":
            yield from _mixer_experts(text, geometry.num_layers, hidden, config)
        case "shared_experts":
            yield from _shared_experts(text, geometry.num_layers, hidden, config, layers)
        case "listed_experts":
            yield from _listed_experts(text, geometry.num_layers, hidden, config)


def _layers(geometry: ModelGeometry) -> str:
    """What the names of the decoder's layers begin with; multimodal models put something before `model`."""
    stem, found, _ = geometry.layers[0].name.partition(".layers.")
    return f"{stem if found else 'model'}.layers"


def _shared_experts(
    text: Mapping[str, Any], count: int, hidden: int, config: EngineConfig, layers: str
) -> Iterator[Part]:
    first = _size(text, "first_k_dense_replace")
    if first > 0:
        yield from _mlp(f"{layers}.0.mlp", _size(text, "intermediate_size"), hidden, config.tensor_parallel)
    if _size(text, "n_routed_experts") and first < count:
        prefix, size = f"{layers}.{first}.mlp", _size(text, "moe_intermediate_size")
        shared = _size(text, "n_shared_experts")
        if shared and not _sequence_parallel(config):
            yield from _mlp(f"{prefix}.shared_experts", size * shared, hidden, config.tensor_parallel)
        yield _routed(f"{prefix}.experts", size, hidden, config)


def _listed_experts(text: Mapping[str, Any], count: int, hidden: int, config: EngineConfig) -> Iterator[Part]:
    """Step 3.5's: experts in the layers that `moe_layers_enum` lists, a dense MLP in the others."""
    listed = text.get("moe_layers_enum")
    indices = [int(index) for index in listed.split(",")] if isinstance(listed, str) and listed else [1]
    first = min(indices)
    if first > 0:
        yield from _mlp("model.layers.0.mlp", _size(text, "intermediate_size"), hidden, config.tensor_parallel)
    if first < count:
        prefix = f"model.layers.{first}.moe"
        yield from _mlp(f"{prefix}.share_expert", _size(text, "share_expert_dim"), hidden, config.tensor_parallel)
        yield _routed(f"{prefix}.experts", _size(text, "moe_intermediate_size"), hidden, config)


def _mixer_experts(text: Mapping[str, Any], layers: int, hidden: int, config: EngineConfig) -> Iterator[Part]:
    """The first layer of experts, told by an `E` in the pattern; shared and routed ones have no gate."""
    pattern = text.get("hybrid_override_pattern")
    first = pattern.find("E") if isinstance(pattern, str) else -1
    if not 0 <= first < layers:
        return
    prefix, tensor = f"model.layers.{first}.mixer", config.tensor_parallel
    shared = _size(text, "moe_shared_expert_intermediate_size") * _size(text, "n_shared_experts")
    if shared and not _sequence_parallel(config):
        yield _columns(f"{prefix}.shared_experts.up_proj", hidden, shared // tensor)
        yield _rows(f"{prefix}.shared_experts.down_proj", shared, tensor, hidden)
    latent = _size(text, "moe_latent_size") or hidden
    yield _routed(f"{prefix}.experts", _size(text, "moe_intermediate_size"), latent, config)


def _sparse_steps(
    text: Mapping[str, Any], count: int, hidden: int, config: EngineConfig, layers: str
) -> Iterator[Part]:
    step = max(1, _size(text, "decoder_sparse_step"))
    plain = text.get("mlp_only_layers")
    plain = plain if isinstance(plain, (list, tuple)) else ()
    first = next((index for index in range(step - 1, count, step) if index not in plain), None)
    if first != 0:
        yield from _mlp(f"{layers}.0.mlp", _size(text, "intermediate_size"), hidden, config.tensor_parallel)
    if first is None:
        return
    prefix = f"{layers}.{first}.mlp"
    shared = _size(text, "shared_expert_intermediate_size")
    if shared:
        yield from _mlp(f"{prefix}.shared_expert", shared, hidden, config.tensor_parallel)
    yield _routed(f"{prefix}.experts", _size(text, "moe_intermediate_size"), hidden, config)


def _mlp(prefix: str, intermediate: int, hidden: int, tensor: int) -> Iterator[Part]:
    share = intermediate // tensor
    yield _columns(f"{prefix}.gate_up_proj", hidden, share, share)
    yield _rows(f"{prefix}.down_proj", intermediate, tensor, hidden)


def _routed(name: str, intermediate: int, hidden: int, config: EngineConfig) -> Experts:
    """Experts are split over tensor and data parallel ranks, unless expert parallelism keeps each one whole."""
    ranks = config.tensor_parallel * config.data_parallel
    return Experts(name, intermediate if config.expert_parallel else intermediate // ranks, hidden)


def _sequence_parallel(config: EngineConfig) -> bool:
    """With expert and data parallelism the shared experts stay whole on every rank."""
    return config.expert_parallel and config.tensor_parallel > 1 and config.data_parallel > 1


def _size(text: Mapping[str, Any], name: str) -> int:
    value = text.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
