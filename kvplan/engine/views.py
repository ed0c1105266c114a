"""Stage 9: blocks are split for the kernels, and bytes allocated are held against bytes viewed.

Sources: `select_common_block_size` (v1/worker/utils.py), `_reshape_kv_cache_tensors` (v1/worker/gpu_model_runner.py),
`_reshape_kv_cache` (v1/worker/gpu/attn_utils.py), `create_kv_cache_views` (v1/kv_cache_interface.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from kvplan.engine.backends.blocks import kernel_block_sizes
from kvplan.engine.backends.layouts import is_block_outermost
from kvplan.engine.backends.values import KernelBlockSize
from kvplan.engine.backends.views import ViewError, view_shape
from kvplan.engine.cache_dtypes.dtypes import ITEM_BYTES
from kvplan.engine.config import EngineConfig
from kvplan.engine.failures import AssertionFails, NoCommonBlockSize, ViewMismatch, ViewRefused
from kvplan.engine.groups.grouping import CacheGroup
from kvplan.engine.layers.built import BuiltLayer
from kvplan.engine.specs.base import AttentionSpec, LayerSpec, MambaSpec, MLAAttentionSpec, TQFullAttentionSpec
from kvplan.engine.stop import stop
from kvplan.engine.values import Stage
from kvplan.history import blocks, cache, packed
from kvplan.releases import Release

Kernels = tuple[str, tuple[KernelBlockSize, ...]]
"""A backend and the block sizes its kernels address."""


def kernel_block_size(group: CacheGroup, built: Mapping[str, BuiltLayer], release: Release, layout: str | None) -> int:
    """Tokens in the blocks that the kernels of `group` see. Raises StartupStops where its backends share none."""
    size = group.block_size
    if isinstance(group.representative, MambaSpec):
        return size
    interleaved = release.has(blocks.INTERLEAVED_BLOCKS_NOT_SPLIT) and layout is not None and is_block_outermost(layout)
    if interleaved:
        return size
    by_spec = release.has(blocks.GROUP_KERNEL_SIZES_BY_SPEC)
    found: dict[Kernels, None] = {}
    for name in group.layers:
        layer = built[name]
        found[layer.backend, kernel_block_sizes(layer.backend, release, layer.query, of_layer=by_spec)] = None
    kernels = list(found)
    if all_take(kernels, size):
        return size
    fixed = {each for _, sizes in kernels for each in sizes if isinstance(each, int)}
    for candidate in sorted(fixed, reverse=True):
        if size % candidate == 0 and all_take(kernels, candidate):
            return candidate
    listed = "; ".join(f"{name}: [{', '.join(map(str, sizes))}]" for name, sizes in kernels)
    raise stop(
        Stage.KERNEL_BLOCK_SIZE,
        NoCommonBlockSize(
            block_size=size, backends=tuple(dict.fromkeys(name for name, _ in kernels)), kernel_block_sizes=listed
        ),
        f"No common block size for {size}." if not by_spec else f"No common block size for {size} ({listed}).",
    )


def all_take(kernels: list[Kernels], size: int) -> bool:
    """Whether the kernels of all of these backends address blocks of `size` tokens."""
    return all(
        any(size == each if isinstance(each, int) else size % each.base == 0 for each in sizes) for _, sizes in kernels
    )


def _check_split(name: str, spec: AttentionSpec, kernel_block: int, layout: str | None, pool_stride: int) -> None:
    """A block can only be cut into kernel blocks where its page is dense: unpadded, and alone in the block."""
    stride = pool_stride if layout is not None and is_block_outermost(layout) else spec.page_bytes
    dense = spec.unpadded_page_bytes
    if kernel_block == spec.block_size or stride == dense:
        return
    raise stop(
        Stage.KV_CACHE_VIEW,
        AssertionFails(check="a block that is not one dense page is cut into kernel blocks", layer=name),
        f"The resolved KV cache layout ({layout}) does not store blocks as dense, unpadded pages (block stride "
        f"{stride} != page {dense}), so a manager block cannot be split into {spec.block_size // kernel_block} kernel "
        f"blocks of {kernel_block} tokens. Reduce --block-size to {kernel_block} or set VLLM_KV_CACHE_LAYOUT to a "
        "layer-compact layout (e.g. LBNHC).",
    )


def check_view(
    name: str,
    layer: BuiltLayer,
    spec: LayerSpec,
    kernel_block: int,
    num_blocks: int,
    config: EngineConfig,
    *,
    layout: str | None = None,
    pool_stride: int = 0,
) -> None:
    """Compare what is allocated for one layer with what its view covers. Raises StartupStops where they differ.

    `pool_stride` are the bytes between blocks where `layout` has them outermost, with a page of every layer in each.
    """
    release = config.release
    if isinstance(spec, MambaSpec):
        return
    if release.has(cache.VIEW_DERIVED_FROM_SPEC):
        _check_split(name, spec, kernel_block, layout, pool_stride)
        return
    try:
        shape = view_shape(
            layer.backend,
            release,
            num_blocks=num_blocks * (spec.block_size // kernel_block),
            block_size=kernel_block // (spec.tokens_per_state if isinstance(spec, MLAAttentionSpec) else 1),
            num_kv_heads=spec.num_kv_heads,
            head_size=spec.head_size,
            head_size_v=spec.head_size_v or None,
            cache_dtype=_view_dtype(layer, spec, config),
        )
    except ViewError as refused:
        raise stop(Stage.KV_CACHE_VIEW, ViewRefused(layer=name), str(refused)) from None
    if shape is None or spec.page_size_padded is not None:
        return
    item = ITEM_BYTES[spec.dtype]
    allocated = num_blocks * spec.page_bytes // item
    viewed = prod(shape)
    if viewed != allocated:
        tokens = num_blocks * spec.block_size
        raise stop(
            Stage.KV_CACHE_VIEW,
            ViewMismatch(
                layer=name,
                allocated_bytes_per_token=allocated * item / tokens,
                viewed_bytes_per_token=viewed * item / tokens,
                quant_mode=spec.quant_mode,
                backend=layer.backend,
                cache_dtype=layer.cache_dtype,
            ),
            f"shape '[{', '.join(map(str, shape))}]' is invalid for input of size {allocated}",
            exception="RuntimeError",
        )


def _view_dtype(layer: BuiltLayer, spec: AttentionSpec, config: EngineConfig) -> str:
    """The cache dtype string that the runner hands to the backend when it asks for the view's shape."""
    release = config.release
    if release.has(cache.VIEW_FOLLOWS_QUANT_MODE):
        by_class = release.has(packed.TURBOQUANT_VIEW_BY_CLASS) and config.model_runner == "V2"
        if spec.quant_mode == "NONE" and not (by_class and isinstance(spec, TQFullAttentionSpec)):
            return "auto"
        if config.model_runner == "V1" and isinstance(spec, MLAAttentionSpec) and spec.cache_dtype is not None:
            return spec.cache_dtype
        return layer.run_cache_dtype
    if config.model_runner == "V2" and release.has(cache.V2_VIEW_IGNORES_DTYPE):
        return "auto"
    return layer.run_cache_dtype
