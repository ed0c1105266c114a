"""The shape in which a backend views one layer's cache buffer (0.16 to 0.28; later the spec decides).

Facts from `get_kv_cache_shape` of the classes in vllm/v1/attention/backends. Shapes count elements of the storage
dtype, so they tell whether the view fits the bytes that were allocated.
"""

from __future__ import annotations

from math import ceil, prod

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
        "DEEPSEEK_V4_INDEXER",
        "MINIMAX_M3_SPARSE_INDEXER",
        "CompressorBackend",
        *_PACKED_ROWS,
    }
)
"""Backends with one row a token instead of heads of keys and values."""

_PAIR_FIRST = frozenset({"FLASH_ATTN", "FLEX_ATTENTION", "TREE_ATTN"})
"""Backends that put the key/value pair before the blocks until VIEW_BLOCKS_FIRST."""
_NEVER_JOINED = frozenset({"HPC_ATTN"})

_TURBOQUANT_BITS = {
    "turboquant_k8v4": (8, 4),
    "turboquant_4bit_nc": (4, 4),
    "turboquant_k3v4_nc": (3, 4),
    "turboquant_3bit_nc": (3, 3),
}
"""Preset -> bits of a key and of a value."""


class ViewError(ValueError):
    """The backend refuses to name a shape, in vLLM's words; start-up stops there with a ValueError."""


def turboquant_slot(cache_dtype: str, head_size: int) -> int:
    """Bytes of one head's key and value of one token in TurboQuant's packed layout.

    Keys: 8 bits -> head_size bytes; fewer bits -> ceil(head_size*bits/8) and a 2-byte norm. Values:
    ceil(head_size*bits/8), 2-byte scale, 2-byte zero. The sum is rounded up to even.
    """
    if cache_dtype not in _TURBOQUANT_BITS:
        raise ViewError(
            f"Unknown TurboQuant cache dtype: {cache_dtype!r}. Valid presets: {', '.join(_TURBOQUANT_BITS)}"
        )
    key_bits, value_bits = _TURBOQUANT_BITS[cache_dtype]
    key = head_size if key_bits == 8 else ceil(head_size * key_bits / 8) + 2
    slot = key + ceil(head_size * value_bits / 8) + 4
    return slot + slot % 2


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
    joined = release.has(history.VIEW_KEYS_VALUES_JOINED)
    if name.endswith("_DIFFKV"):
        width = head_size + (head_size if head_size_v is None else head_size_v)
        if joined:
            return (num_blocks, num_kv_heads, block_size, width)
        return (num_blocks, block_size, num_kv_heads, width)
    if name == "TURBOQUANT":
        slot = turboquant_slot(cache_dtype, head_size)
        if joined:
            return (num_blocks, num_kv_heads, block_size, slot)
        return (num_blocks, block_size, num_kv_heads, slot)
    if name == "FLASHINFER" and cache_dtype.startswith("nvfp4"):
        # Half a byte a value and one scale byte for sixteen of them, for keys and for values.
        width = head_size // 2 + head_size // 16
        if joined:
            return (num_blocks, 2 * num_kv_heads, block_size, width)
        return (num_blocks, 2, block_size, num_kv_heads, width)
    width = head_size
    if name == "TRITON_ATTN" and cache_dtype.endswith("_per_token_head"):
        # A float32 scale a token and head follows the values; every storage dtype here is one byte wide.
        width = (head_size // 2 if cache_dtype.startswith("int4") else head_size) + 4
    if joined and name not in _NEVER_JOINED:
        return (num_blocks, num_kv_heads, block_size, 2 * width)
    if name in _PAIR_FIRST and not release.has(history.VIEW_BLOCKS_FIRST):
        return (2, num_blocks, block_size, num_kv_heads, width)
    return (num_blocks, 2, block_size, num_kv_heads, width)


def view_elements_per_block(
    name: str,
    release: Release,
    *,
    block_size: int,
    num_kv_heads: int,
    head_size: int,
    head_size_v: int | None = None,
    cache_dtype: str = "auto",
) -> int | None:
    """Elements of one block in the backend's view (see `view_shape`); None where the spec decides."""
    shape = view_shape(
        name,
        release,
        num_blocks=1,
        block_size=block_size,
        num_kv_heads=num_kv_heads,
        head_size=head_size,
        head_size_v=head_size_v,
        cache_dtype=cache_dtype,
    )
    return None if shape is None else prod(shape)
