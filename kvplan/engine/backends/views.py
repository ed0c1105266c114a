"""The shape in which a backend views one layer's cache buffer (0.16 to 0.28; later the spec decides).

Facts from `get_kv_cache_shape` of the classes in vllm/v1/attention/backends. Shapes count elements of the storage
dtype, so they tell whether the view fits the bytes that were allocated.
"""

from __future__ import annotations

from kvplan.engine.cache_dtypes.packing import SCALE_BYTES, TURBOQUANT_BITS, nvfp4_row, turboquant_slot
from kvplan.history import backends as history
from kvplan.releases import Release

_DS_MLA_ROW = 656
"""Bytes of a packed fp8_ds_mla row."""
_DSV4_ROW = 584
"""Bytes of a packed fp8_ds_mla row of DeepSeek-V4."""
_PACKED_ROWS = {
    "FLASHMLA_SPARSE": (_DS_MLA_ROW, ("fp8_ds_mla",)),
    "FLASHINFER_MLA_SPARSE_SM120": (_DS_MLA_ROW, ("auto", "fp8", "fp8_e4m3", "fp8_ds_mla")),
    "FLASHMLA_SPARSE_DSV4": (_DSV4_ROW, ("fp8_ds_mla",)),
    "DEEPSEEK_SPARSE_SWA": (_DSV4_ROW, ("fp8_ds_mla",)),
}
"""Backend -> (row of that many elements, for these cache dtype strings)."""

_ROWS = frozenset(
    {
        "FLASHINFER_MLA",
        "TOKENSPEED_MLA",
        "CUTLASS_MLA",
        "FLASH_ATTN_MLA",
        "FLASHMLA",
        "TRITON_MLA",
        "FLASH_ATTN_MLA_SPARSE",
        "FLASHINFER_MLA_SPARSE",
        "FLASHINFER_MLA_SPARSE_DSV4",
        "DEEPSEEK_V32_INDEXER",
        "DOTS3_NOTE_PADDED_MLA_SPARSE",
        "DEEPSEEK_V4_INDEXER",
        "MINIMAX_M3_SPARSE_INDEXER",
        "CompressorBackend",
        *_PACKED_ROWS,
    }
)
"""Backends with one row a token instead of heads of keys and values."""

_HEADS_WITHOUT_VALUES = frozenset({"CACHE_ONLY_ATTN", "INKLING_SCONV_SWA"})
"""Backends with one row a token and head."""

_PAIR_FIRST = frozenset({"FLASH_ATTN", "FLEX_ATTENTION", "TREE_ATTN"})
"""Backends that put the key/value pair before the blocks until VIEW_BLOCKS_FIRST."""
_NEVER_JOINED = frozenset({"HPC_ATTN"})


class ViewError(ValueError):
    """The backend refuses to name a shape, in vLLM's words; start-up stops there with a ValueError."""


def view_shape(
    name: str,
    release: Release,
    *,
    num_blocks: int,
    block_size: int,
    num_kv_heads: int,
    head_size: int,
    head_size_v: int | None = None,
    cache_dtype: str = "auto",
) -> tuple[int, ...] | None:
    """The shape of one layer's cache view, `block_size` being the kernel's; None where the spec decides (0.29+).

    Raises ViewError where the backend's own code would refuse.
    """
    if not release.has(history.VIEW_BY_BACKEND):
        return None
    if name in _ROWS:
        row, dtypes = _PACKED_ROWS.get(name, (head_size, ()))
        return (num_blocks, block_size, row if cache_dtype in dtypes else head_size)
    if name in _HEADS_WITHOUT_VALUES:
        return (num_blocks, num_kv_heads, block_size, head_size)
    joined = release.has(history.VIEW_KEYS_VALUES_JOINED)
    if name.endswith("_DIFFKV"):
        width = head_size + (head_size if head_size_v is None else head_size_v)
        if joined:
            return (num_blocks, num_kv_heads, block_size, width)
        return (num_blocks, block_size, num_kv_heads, width)
    if name == "TURBOQUANT":
        if cache_dtype not in TURBOQUANT_BITS:
            presets = ", ".join(TURBOQUANT_BITS)
            raise ViewError(f"Unknown TurboQuant cache dtype: {cache_dtype!r}. Valid presets: {presets}")
        slot = turboquant_slot(cache_dtype, head_size)
        if joined:
            return (num_blocks, num_kv_heads, block_size, slot)
        return (num_blocks, block_size, num_kv_heads, slot)
    if name == "FLASHINFER" and cache_dtype.startswith("nvfp4"):
        width = nvfp4_row(head_size)
        if joined:
            return (num_blocks, 2 * num_kv_heads, block_size, width)
        return (num_blocks, 2, block_size, num_kv_heads, width)
    width = head_size
    if name == "TRITON_ATTN" and cache_dtype.endswith("_per_token_head"):
        # A float32 scale a token and head follows the values; every storage dtype here is one byte wide.
        width = (head_size // 2 if cache_dtype.startswith("int4") else head_size) + SCALE_BYTES
    if joined and name not in _NEVER_JOINED:
        return (num_blocks, num_kv_heads, block_size, 2 * width)
    if name in _PAIR_FIRST and not release.has(history.VIEW_BLOCKS_FIRST):
        return (2, num_blocks, block_size, num_kv_heads, width)
    return (num_blocks, 2, block_size, num_kv_heads, width)
