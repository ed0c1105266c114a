"""Stage 6: the KV cache spec of each layer (`get_kv_cache_spec` of the layer classes)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from operator import attrgetter

from kvplan.engine.backends.blocks import indexes_kv_by_block_stride, kernel_block_sizes
from kvplan.engine.backends.values import MultipleOf
from kvplan.engine.blocks.block_size import BlockSize
from kvplan.engine.cache_dtypes.packing import TURBOQUANT_BITS, turboquant_slot
from kvplan.engine.failures import StateBlockUnset
from kvplan.engine.layers.built import BuiltLayer
from kvplan.engine.models.geometry import Kind, LayerGeometry
from kvplan.engine.specs.base import (
    AttentionSpec,
    FullAttentionSpec,
    LayerSpec,
    MambaSpec,
    MLAAttentionSpec,
    SlidingWindowSpec,
    TQFullAttentionSpec,
    attention_token_bytes,
    latent_token_bytes,
    recast,
)
from kvplan.engine.specs.custom import custom_spec
from kvplan.engine.specs.partial import ChunkedLocalAttentionSpec, CrossAttentionSpec, RSWASpec, SinkFullAttentionSpec
from kvplan.engine.specs.strides import with_stride
from kvplan.engine.stop import stop
from kvplan.engine.values import Stage
from kvplan.history import blocks, cache, packed
from kvplan.history import state as state_history
from kvplan.releases import Release

_OF_GEOMETRY = attrgetter(*(field.name for field in fields(LayerGeometry) if field.name not in ("name", "index")))
_OF_LAYER = attrgetter(*(field.name for field in fields(BuiltLayer) if field.name not in ("geometry", "query")))


def build_specs(layers: Sequence[BuiltLayer], block: BlockSize, release: Release) -> dict[str, LayerSpec]:
    """The specs that the layers of a rank return once its block size is settled, by layer name.

    Layers that differ in name and number alone share one.
    """
    made: dict[tuple[object, ...], LayerSpec] = {}
    specs: dict[str, LayerSpec] = {}
    for layer in layers:
        # Equal questions are mostly one object, so its identity will do and spares hashing it.
        alike = (id(layer.query), _OF_LAYER(layer), _OF_GEOMETRY(layer.geometry))
        spec = made.get(alike)
        if spec is None:
            spec = made[alike] = build_spec(layer, block, release)
        specs[layer.geometry.name] = spec
    return specs


def build_spec(layer: BuiltLayer, block: BlockSize, release: Release) -> LayerSpec:
    """The spec that `layer` returns once the rank's block size is settled."""
    return BUILDERS[layer.geometry.kind](layer, block, release)


def _indexer_spec(layer: BuiltLayer, block: BlockSize, release: Release) -> LayerSpec:
    """The key rows of a sparse-attention indexer."""
    head_size = layer.geometry.head_size
    return MLAAttentionSpec(
        block_size=block.block_size,
        num_kv_heads=1,
        head_size=head_size,
        head_size_v=_latent_value_head(head_size, release),
        dtype=layer.storage,
        quant_mode=layer.quant_mode,
        token_bytes=latent_token_bytes(None, head_size, layer.storage),
        indexes_by_block_stride=indexes_kv_by_block_stride(layer.backend, release),
        indexer=True,
    )


def _latent_spec(layer: BuiltLayer, block: BlockSize, release: Release) -> LayerSpec:
    """The latent rows of an MLA layer."""
    geometry = layer.geometry
    own = release.has(cache.MLA_SPEC_CARRIES_QUANT_MODE)
    named = layer.cache_dtype if own else layer.run_cache_dtype
    token_bytes = latent_token_bytes(named, geometry.head_size, layer.storage)
    spec = MLAAttentionSpec(
        block_size=block.block_size,
        num_kv_heads=1,
        head_size=geometry.head_size,
        head_size_v=_latent_value_head(geometry.head_size, release),
        dtype=layer.storage,
        quant_mode=layer.quant_mode if own else _no_mode(layer),
        token_bytes=token_bytes,
        indexes_by_block_stride=indexes_kv_by_block_stride(layer.backend, release),
        cache_dtype=named,
        group_leader=geometry.owns_indexer,
    )
    return with_stride(layer, spec, release)


def _attention_spec(layer: BuiltLayer, block: BlockSize, release: Release) -> AttentionSpec:
    """Keys and values of an ordinary attention layer, all of them or those in its window."""
    geometry = layer.geometry
    by_stride = indexes_kv_by_block_stride(layer.backend, release)
    token_bytes = attention_token_bytes(
        release,
        num_kv_heads=layer.num_kv_heads,
        head_size=geometry.head_size,
        head_size_v=geometry.head_size_v,
        dtype=layer.storage,
        sliding=layer.sliding_window is not None,
        quant_mode=layer.quant_mode,
        backend=layer.backend,
    )
    value_head = geometry.head_size if geometry.head_size_v is None else geometry.head_size_v
    if layer.sliding_window is not None:
        return SlidingWindowSpec(
            block_size=_sliding_block_size(layer, block, _without_scales(layer, token_bytes, release), release),
            num_kv_heads=layer.num_kv_heads,
            head_size=geometry.head_size,
            head_size_v=value_head if release.has(cache.SLIDING_SPEC_COUNTS_VALUE_HEAD) else None,
            dtype=layer.storage,
            quant_mode=layer.quant_mode,
            token_bytes=token_bytes,
            page_size_padded=block.shared_page_bytes,
            indexes_by_block_stride=by_stride,
            sliding_window=layer.sliding_window,
        )
    if (
        layer.cache_dtype is not None
        and layer.cache_dtype in TURBOQUANT_BITS
        and release.has(packed.PAGE_FORMULA_IN_SPEC)
    ):
        return TQFullAttentionSpec(
            block_size=block.block_size,
            num_kv_heads=layer.num_kv_heads,
            head_size=geometry.head_size,
            head_size_v=geometry.head_size,
            dtype=layer.storage,
            quant_mode=layer.quant_mode,
            token_bytes=layer.num_kv_heads * turboquant_slot(layer.cache_dtype, geometry.head_size),
            indexes_by_block_stride=by_stride,
        )
    full = FullAttentionSpec(
        block_size=block.block_size,
        num_kv_heads=layer.num_kv_heads,
        head_size=geometry.head_size,
        head_size_v=value_head,
        dtype=layer.storage,
        quant_mode=layer.quant_mode,
        token_bytes=token_bytes,
        indexes_by_block_stride=by_stride,
    )
    return with_stride(layer, full, release)


def _state_spec(layer: BuiltLayer, block: BlockSize, release: Release) -> LayerSpec:
    """A state of fixed size. Raises StartupStops where the release leaves its block size unset."""
    state = layer.state
    if state is None:
        raise ValueError(f"{layer.geometry.name} was built without a state")
    if block.state_block_size is None:
        raise stop(
            Stage.CAPACITY,
            StateBlockUnset(option="--mamba-block-size", layer=layer.geometry.name),
            "bad operand type for unary -: 'NoneType'",
            exception="TypeError",
        )
    return MambaSpec(
        block_size=block.state_block_size,
        shapes=state.shapes,
        dtypes=state.dtypes,
        cache_mode=state.cache_mode,
        kind=layer.backend,
        state_bytes=state.bytes,
        page_size_padded=block.state_page_padded,
        extra_states=state.extra_states,
        type_knows_page=release.has(state_history.STATE_TYPE_KNOWS_PAGE),
        replicated=layer.geometry.state is not None and layer.geometry.state.replicated,
    )


def _chunked_spec(layer: BuiltLayer, block: BlockSize, release: Release) -> LayerSpec:
    """Keys and values of a layer that attends within chunks."""
    plain = _of_key_width(layer, block, release)
    return recast(plain, ChunkedLocalAttentionSpec, chunk_size=layer.geometry.chunk_size)


def _cross_spec(layer: BuiltLayer, block: BlockSize, release: Release) -> LayerSpec:
    """Keys and values that cross-attention reads from the encoder's output."""
    return recast(_of_key_width(layer, block, release), CrossAttentionSpec)


def _of_key_width(layer: BuiltLayer, block: BlockSize, release: Release) -> FullAttentionSpec:
    """A plain spec whose value rows are as wide as its key rows, and which says so only in late releases."""
    head_size = layer.geometry.head_size
    return FullAttentionSpec(
        block_size=block.block_size,
        num_kv_heads=layer.num_kv_heads,
        head_size=head_size,
        head_size_v=head_size if release.has(cache.EVERY_SPEC_HAS_VALUE_HEAD) else None,
        dtype=layer.storage,
        quant_mode=layer.quant_mode,
        token_bytes=attention_token_bytes(
            release,
            num_kv_heads=layer.num_kv_heads,
            head_size=head_size,
            head_size_v=None,
            dtype=layer.storage,
            sliding=False,
            quant_mode=layer.quant_mode,
            backend=layer.backend,
        ),
    )


def _sink_spec(layer: BuiltLayer, block: BlockSize, release: Release) -> LayerSpec:
    """Keys and values of full attention behind learned tokens."""
    full = _attention_spec(replace(layer, sliding_window=None), block, release)
    return recast(
        replace(full, indexes_by_block_stride=False), SinkFullAttentionSpec, sink_tokens=layer.geometry.sink_tokens
    )


def _rswa_spec(layer: BuiltLayer, block: BlockSize, release: Release) -> LayerSpec:
    """Keys and values of a layer whose window leaves the prompt in sight."""
    full = _attention_spec(replace(layer, sliding_window=None), block, release)
    return recast(replace(full, indexes_by_block_stride=False), RSWASpec, rswa_window=layer.geometry.rswa_window)


BUILDERS: Mapping[Kind, Callable[[BuiltLayer, BlockSize, Release], LayerSpec]] = {
    Kind.ATTENTION: _attention_spec,
    Kind.MLA: _latent_spec,
    Kind.INDEXER: _indexer_spec,
    Kind.OWN: custom_spec,
    Kind.STATE: _state_spec,
    Kind.CHUNKED: _chunked_spec,
    Kind.CROSS: _cross_spec,
    Kind.SINK: _sink_spec,
    Kind.RSWA: _rswa_spec,
}
"""Who makes the spec of each kind of layer."""


def _without_scales(layer: BuiltLayer, token_bytes: int, release: Release) -> int:
    """What a sliding-window layer takes a token for when it chooses its block: scales that the spec counts apart are
    forgotten there (0.25 to 0.27)."""
    geometry = layer.geometry
    if not release.has(packed.PAGE_FORMULA_IN_SPEC):
        return token_bytes
    return attention_token_bytes(
        release,
        num_kv_heads=layer.num_kv_heads,
        head_size=geometry.head_size,
        head_size_v=geometry.head_size_v,
        dtype=layer.storage,
        sliding=True,
        quant_mode=layer.quant_mode,
        with_scales=False,
    )


def _no_mode(layer: BuiltLayer) -> str | None:
    return None if layer.quant_mode is None else "NONE"


def _latent_value_head(head_size: int, release: Release) -> int:
    return 0 if release.has(cache.MLA_SPEC_HAS_NO_VALUE_HEAD) else head_size


def _sliding_block_size(layer: BuiltLayer, block: BlockSize, token_bytes: int, release: Release) -> int:
    """Tokens a block of a sliding-window layer, which from 0.25 on is its own choice.

    Candidates are the kernel block sizes of its backend. 0.25 to 0.29: the largest that fits the shared page of a
    skip list, else the smallest. 0.30 and later: the largest that fits that page, or a page of the primary block.
    """
    if not release.has(blocks.SLIDING_LAYERS_CHOOSE_BLOCK_SIZE):
        return block.block_size
    sizes = kernel_block_sizes(layer.backend, release, layer.query, of_layer=release.has(blocks.KERNEL_SIZES_BY_SPEC))
    fixed = [size for size in sizes if isinstance(size, int)]
    bases = [size.base for size in sizes if isinstance(size, MultipleOf)]
    if release.has(blocks.SLIDING_BLOCK_FOLLOWS_PRIMARY):
        budget = block.shared_page_bytes or token_bytes * block.block_size
        fits = budget // token_bytes
        candidates = fixed + [max(base, fits // base * base) for base in bases]
    else:
        budget = block.shared_page_bytes or 0
        candidates = fixed or bases
    if not candidates:
        return block.block_size
    fitting = [size for size in candidates if size * token_bytes <= budget]
    return max(fitting) if fitting else min(candidates)
