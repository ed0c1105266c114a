"""How far apart blocks must lie for the kernels that read them (`block_stride_alignment`, from 0.31 on).

Sparse kernels read the whole cache as flat rows or as pages of their kernel block, so the distance between blocks,
which in a block-outermost layout is the sum of many layers' pages, has to be whole rows or whole kernel pages.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from kvplan.engine.backends.blocks import kernel_block_sizes
from kvplan.engine.backends.layouts import is_block_outermost
from kvplan.engine.layers.built import BuiltLayer
from kvplan.engine.specs.base import AttentionSpec, LayerSpec
from kvplan.history import blocks
from kvplan.releases import Release

_FLAT_ROWS = {
    "DOTS3_NOTE_PADDED_MLA_SPARSE": 1,
    "FLASHINFER_MLA_SPARSE": 32,
    "FLASHINFER_MLA_SPARSE_SM90": 1,
    "FLASH_ATTN_MLA_SPARSE": 1,
    "FLASH_ATTN_MLA_SPARSE_FA4": 1,
}
"""Rows that a backend's flat view takes at a time."""
_REGIONS = {"STEP5_DSA": 8}
"""Tokens of the pages that a backend cuts blocks into."""


def with_stride(layer: BuiltLayer, spec: AttentionSpec, release: Release) -> AttentionSpec:
    """The spec with the bytes that the distance between blocks must be a multiple of."""
    alignment = _alignment(layer, spec, release)
    return spec if alignment == 1 else replace(spec, row_alignment=alignment)


def _alignment(layer: BuiltLayer, spec: AttentionSpec, release: Release) -> int:
    if release.has(blocks.FLAT_ROWS_ALIGN_POOL):
        return _rows_of_latent(layer, spec.token_bytes)
    if not release.has(blocks.BACKENDS_ALIGN_BLOCKS):
        return 1
    if layer.backend in _REGIONS:
        return _kernel_page(spec, _REGIONS[layer.backend])
    if layer.backend in _FLAT_ROWS:
        return _FLAT_ROWS[layer.backend] * spec.token_bytes
    if layer.backend == "FLASHMLA_SPARSE":
        if layer.quant_mode != "NONE" and layer.query.major != 10:
            return _kernel_page(spec, 64)
        return spec.token_bytes
    sizes = kernel_block_sizes(layer.backend, release, layer.query, of_layer=True)
    fixed = [size for size in sizes if isinstance(size, int)]
    return _kernel_page(spec, max(fixed)) if sizes and len(fixed) == len(sizes) else 1


def within_layout(specs: Mapping[str, LayerSpec], layout: str | None, release: Release) -> dict[str, LayerSpec]:
    """The specs as the pool sees them: where each layer's blocks lie together, every page keeps its own distance."""
    packs = layout is not None and is_block_outermost(layout)
    if packs or not release.has(blocks.BACKENDS_ALIGN_BLOCKS):
        return dict(specs)
    alone = {spec: spec if spec.row_alignment == 1 else replace(spec, row_alignment=1) for spec in set(specs.values())}
    return {name: alone[spec] for name, spec in specs.items()}


def _rows_of_latent(layer: BuiltLayer, row_bytes: int) -> int:
    """The one release that aligns every layout, and only for flat rows."""
    packed = layer.cache_dtype in ("fp8_ds_mla", "nvfp4_ds_mla")
    flat = layer.backend == "FLASHINFER_MLA_SPARSE" or (layer.backend == "FLASHMLA_SPARSE" and not packed)
    tensor_maps = layer.backend == "FLASHMLA_SPARSE" and packed and layer.query.major == 10
    return row_bytes if flat or tensor_maps else 1


def _kernel_page(spec: AttentionSpec, kernel_block: int) -> int:
    """Bytes of a kernel page, where a block is cut into several: of 16 tokens in pages of 8, 768 bytes each: 6,144."""
    cut = math.gcd(kernel_block, spec.block_size)
    return 1 if cut == spec.block_size else replace(spec, block_size=cut).page_bytes
