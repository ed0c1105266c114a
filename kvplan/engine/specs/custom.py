"""Stage 6 for caches that models lay out themselves: the spec that each module's own code returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kvplan.engine.blocks.block_size import BlockSize
from kvplan.engine.cache_dtypes.dtypes import DS_MLA_ROW_BYTES, ITEM_BYTES
from kvplan.engine.failures import BlockSizeRefused
from kvplan.engine.layers.built import BuiltLayer
from kvplan.engine.models.geometry import CustomCache
from kvplan.engine.models.shapes import Form
from kvplan.engine.specs.base import FullAttentionSpec, LayerSpec, MLAAttentionSpec, SlidingWindowSpec
from kvplan.engine.specs.compressed import (
    CircularBufferSpec,
    HiddenStateCacheSpec,
    KpoolTailSpec,
    SlidingWindowMLASpec,
)
from kvplan.engine.specs.strides import with_stride
from kvplan.engine.stop import stop
from kvplan.engine.values import Stage
from kvplan.history import cache
from kvplan.history import speculation as history
from kvplan.releases import Release


def custom_spec(layer: BuiltLayer, block: BlockSize, release: Release) -> LayerSpec:
    """The spec of a cache module of the model's own."""
    own = layer.geometry.own
    assert own is not None
    if own.divides_block and own.block_size is not None and block.block_size % own.block_size:
        raise stop(
            Stage.SPECS,
            BlockSizeRefused(block_size=block.block_size, multiple=own.block_size, layer=layer.geometry.name),
            f"QSA ring capacity {own.block_size} must divide the attention block size {block.block_size}",
            exception="AssertionError",
        )
    return _FORMS[own.form](layer, own, block.block_size if own.block_size is None else own.block_size, release)


def _packed(layer: BuiltLayer) -> bool:
    return layer.run_cache_dtype in DS_MLA_ROW_BYTES


def _row_bytes(layer: BuiltLayer, own: CustomCache) -> int:
    """Bytes of a stored row, key and value."""
    if own.packed_row_bytes is not None and _packed(layer):
        return own.packed_row_bytes
    width = layer.geometry.head_size + (layer.geometry.head_size_v or 0)
    return layer.num_kv_heads * width * ITEM_BYTES[layer.storage]


def _alignment(layer: BuiltLayer, own: CustomCache) -> int | None:
    return own.packed_alignment if _packed(layer) else own.alignment


def _no_value_head(layer: BuiltLayer, release: Release) -> int:
    return 0 if release.has(cache.MLA_SPEC_HAS_NO_VALUE_HEAD) else layer.geometry.head_size


def _stored(layer: BuiltLayer, block_size: int) -> dict[str, Any]:
    """What every spec says of how its layer is stored."""
    return {
        "block_size": block_size,
        "num_kv_heads": layer.num_kv_heads,
        "head_size": layer.geometry.head_size,
        "dtype": layer.storage,
        "quant_mode": layer.quant_mode,
    }


def _latent(layer: BuiltLayer, own: CustomCache, block_size: int, release: Release) -> LayerSpec:
    spec = MLAAttentionSpec(
        **_stored(layer, block_size),
        head_size_v=_no_value_head(layer, release),
        token_bytes=_row_bytes(layer, own),
        cache_dtype=layer.cache_dtype,
        indexer=not own.is_attention,
        tokens_per_state=own.tokens_per_state,
        alignment=_alignment(layer, own),
    )
    return with_stride(layer, spec, release)


def _hidden_states(layer: BuiltLayer, own: CustomCache, block_size: int, release: Release) -> LayerSpec:
    kind = HiddenStateCacheSpec if release.has(history.HIDDEN_STATES_HAVE_SPEC) else MLAAttentionSpec
    return kind(
        **_stored(layer, block_size), head_size_v=_no_value_head(layer, release), token_bytes=_row_bytes(layer, own)
    )


def _window_latent(layer: BuiltLayer, own: CustomCache, block_size: int, release: Release) -> LayerSpec:
    assert layer.sliding_window is not None
    return SlidingWindowMLASpec(
        **_stored(layer, block_size),
        head_size_v=_no_value_head(layer, release),
        token_bytes=_row_bytes(layer, own),
        row_alignment=own.stride,
        cache_dtype=layer.run_cache_dtype if own.follows_format else None,
        sliding_window=layer.sliding_window,
        alignment=_alignment(layer, own),
        bounded_replay=own.replays,
    )


def _window(layer: BuiltLayer, own: CustomCache, block_size: int, _release: Release) -> LayerSpec:
    assert layer.sliding_window is not None
    return SlidingWindowSpec(
        **_stored(layer, block_size),
        head_size_v=layer.geometry.head_size_v,
        token_bytes=_row_bytes(layer, own),
        sliding_window=layer.sliding_window,
    )


def _full(layer: BuiltLayer, own: CustomCache, block_size: int, _release: Release) -> LayerSpec:
    if block_size % own.tokens_per_state:
        raise stop(
            Stage.SPECS,
            BlockSizeRefused(block_size=block_size, multiple=own.tokens_per_state, layer=layer.geometry.name),
            f"KV blocks of {block_size} tokens must align to {own.tokens_per_state}-token regions",
        )
    return FullAttentionSpec(
        **_stored(layer, block_size),
        head_size_v=layer.geometry.head_size_v,
        token_bytes=_row_bytes(layer, own) // own.tokens_per_state,
    )


def _ring(layer: BuiltLayer, own: CustomCache, block_size: int, _release: Release) -> LayerSpec:
    if layer.page_of is not None:
        return _ring_in_page(layer, layer.page_of, own, block_size)
    return CircularBufferSpec(
        **_stored(layer, block_size),
        head_size_v=layer.geometry.head_size_v,
        token_bytes=_row_bytes(layer, own),
    )


def _tail_ring(layer: BuiltLayer, own: CustomCache, block_size: int, _release: Release) -> LayerSpec:
    return KpoolTailSpec(
        **_stored(layer, block_size),
        head_size_v=layer.geometry.head_size_v,
        token_bytes=_row_bytes(layer, own),
        sliding_window=block_size,
    )


def _ring_in_page(layer: BuiltLayer, attention: BuiltLayer, own: CustomCache, block_size: int) -> LayerSpec:
    """A ring that takes just one page of `attention`, whatever rows fit into it."""
    geometry = attention.geometry
    width = geometry.head_size + (geometry.head_size if geometry.head_size_v is None else geometry.head_size_v)
    token_bytes = attention.num_kv_heads * width * ITEM_BYTES[attention.storage]
    page = block_size * token_bytes
    if page % own.ring_row_bytes or page // own.ring_row_bytes < own.ring_rows:
        raise stop(
            Stage.SPECS,
            BlockSizeRefused(block_size=block_size, layer=layer.geometry.name),
            f"The tail ring needs {own.ring_rows} rows of {own.ring_row_bytes} bytes in one {page}-byte KV page; "
            "increase --block-size.",
        )
    return CircularBufferSpec(
        block_size=block_size,
        num_kv_heads=1,
        head_size=token_bytes // ITEM_BYTES[layer.storage],
        head_size_v=0,
        dtype=layer.storage,
        quant_mode=layer.quant_mode,
        token_bytes=token_bytes,
        row_alignment=own.ring_row_bytes,
    )


_FORMS: Mapping[Form, Callable[[BuiltLayer, CustomCache, int, Release], LayerSpec]] = {
    Form.FULL: _full,
    Form.HIDDEN_STATES: _hidden_states,
    Form.LATENT: _latent,
    Form.WINDOW: _window,
    Form.WINDOW_LATENT: _window_latent,
    Form.RING: _ring,
    Form.TAIL_RING: _tail_ring,
}
