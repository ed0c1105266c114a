"""Packed cache layouts: how many bytes one token takes where scales or codes lie beside or instead of plain values.

Per head, with D and Dv the key and value head sizes (elements):

- per-token-head int8 and fp8: D + Dv bytes of values; int4: D // 2 + Dv // 2. Two float32 scales, one for the key and
  one for the value.
- NVFP4: D // 2 bytes of 4-bit values and D // 16 scale bytes, the same for the value. nvfp4_4over6 chooses its scales
  otherwise but has the same size.
- TurboQuant: see `turboquant_slot`. UltraQuant and Octave (ROCm only): see `ultraquant_slot` and `octave_slot`.

Until 0.27 the spec classes held these formulas, each class its own; since 0.28 the layer's backend writes its layout
into the spec, and a backend that has none leaves the layer dense. Sources: `v1/kv_cache_interface.py`, `customize_spec`
of the backends, `layers/quantization/turboquant/config.py`, `v1/attention/ops/ultraquant/format.py`,
`v1/attention/ops/rocm_octave.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from math import ceil
from typing import Any

from kvplan.history import compressed, packed
from kvplan.releases import Release

SCALE_BYTES = 4
"""A per-token-head scale is a float32."""

TURBOQUANT_BITS: Mapping[str, tuple[int, int]] = {
    "turboquant_k8v4": (8, 4),
    "turboquant_4bit_nc": (4, 4),
    "turboquant_k3v4_nc": (3, 4),
    "turboquant_3bit_nc": (3, 3),
}
"""Preset -> bits of a key and of a value."""

_OCTAVE_VALUE_BITS = {"octave_k3v4": 4, "octave_k3v3": 3, "octave_k3v3_compact": 3}
_OCTAVE_ROPE_BITS, _OCTAVE_BITS = 4, 3
_OCTAVE_BLOCK = 64
"""Elements that Octave rotates, and scales, together."""

OCTAVE_HEAD_SIZE = 256
"""The one head size for which Octave has kernels."""

ROCM_ONLY = ("ultraquant_4bit", *_OCTAVE_VALUE_BITS)
"""Cache dtypes whose only backend runs on ROCm."""


class Keeps(StrEnum):
    """Which spec class counts the bytes: until 0.27 they differ."""

    ALL = "all"
    """FullAttentionSpec and the classes that inherit its formula."""
    WINDOW = "window"
    """SlidingWindowSpec."""


def nvfp4_row(head_size: int) -> int:
    """Bytes of one NVFP4 key or value: 128 elements take 64 + 8 = 72."""
    return head_size // 2 + head_size // 16


def turboquant_slot(cache_dtype: str, head_size: int) -> int:
    """Bytes of one head's key and value of one token as TurboQuant packs them.

    Keys: 8 bits -> D bytes; fewer bits -> ceil(D * bits / 8) and a 2-byte norm. Values: ceil(D * bits / 8), a 2-byte
    scale and a 2-byte zero. The sum is rounded up to even. D = 128 as 4bit_nc: 66 + 68 = 134. Raises KeyError for a
    name that is no preset.
    """
    key_bits, value_bits = TURBOQUANT_BITS[cache_dtype]
    key = head_size if key_bits == 8 else ceil(head_size * key_bits / 8) + 2
    slot = key + ceil(head_size * value_bits / 8) + 4
    return slot + slot % 2


def ultraquant_slot(head_size: int) -> int:
    """Bytes of one head's key and value of one token: 4-bit codes and a scale byte for 32 of them; D = 128: 136."""
    return head_size + 2 * (head_size // 32)


def octave_slot(cache_dtype: str, head_size: int, rope_dim: int) -> int:
    """Bytes of one head's key and value of one token as Octave packs them.

    Rotary key elements take 4 bits, the others 3, compact layouts 3 throughout; a 2-byte scale for 64 key elements
    (compact: one) and one for the value; rounded up to 8 (compact: 4). D = 256, 64 rotary, k3v4: 248.
    """
    compact = cache_dtype.endswith("_compact")
    wide = 0 if compact else rope_dim
    key = wide * _OCTAVE_ROPE_BITS // 8 + (head_size - wide) * _OCTAVE_BITS // 8
    value = head_size * _OCTAVE_VALUE_BITS[cache_dtype] // 8
    scales = 1 + (1 if compact else head_size // _OCTAVE_BLOCK)
    alignment = 4 if compact else 8
    return ceil((key + value + 2 * scales) / alignment) * alignment


def rocm_slot(cache_dtype: str, head_size: int, rope_dim: int) -> int | None:
    """Bytes of one head's key and value in a layout that only ROCm has; None where it has none for this head size."""
    if cache_dtype == "ultraquant_4bit":
        return ultraquant_slot(head_size)
    fits = head_size % _OCTAVE_BLOCK == 0 and rope_dim % _OCTAVE_BLOCK == 0
    return octave_slot(cache_dtype, head_size, rope_dim) if fits and head_size == OCTAVE_HEAD_SIZE else None


def rocm_block_size(cache_dtype: str, asked: int | None) -> int:
    """Tokens a block on ROCm: as asked, else what the layout's backend prefers."""
    return asked or (64 if cache_dtype == "ultraquant_4bit" else 16)


def rocm_page(slot: int, heads: int, block_size: int) -> int:
    """Bytes of a layer's page on ROCm: one slot for each head and token, nothing beside them (`AttentionSpec`).

    Qwen3-8B, UltraQuant: 8 heads * 64 tokens * 136 = 69,632; in bfloat16 such a page takes 262,144.
    """
    return heads * block_size * slot


def rotary_dim(text_config: Mapping[str, Any], head_size: int) -> int:
    """Elements of a key that rotary embedding turns, as Octave reads them from the config."""
    factor = text_config.get("partial_rotary_factor")
    if factor is None:
        rope = text_config.get("rope_parameters")
        factor = rope.get("partial_rotary_factor", 1.0) if isinstance(rope, Mapping) else 1.0
    return int(head_size * factor) if isinstance(factor, int | float) else head_size


def head_bytes(
    release: Release, mode: str | None, keeps: Keeps, *, head_size: int, head_size_v: int, backend: str | None
) -> tuple[int, int] | None:
    """(bytes of values, bytes of float32 scales that the spec counts apart) of one head and token; None: dense.

    `mode` is the spec's quant mode, `backend` the one that lays the cache out (it counts since 0.28).
    Llama-3-8B, int8_per_token_head: 8 heads * (256 + 8) = 2,112 bytes a token, 33,792 a page of 16.
    """
    if mode is None or mode == "NONE":
        return None
    if not release.has(packed.PAGE_FORMULA_IN_SPEC):
        slot = _by_backend(mode, backend, head_size, head_size_v, release)
        return None if slot is None else (slot, 0)
    if mode == "NVFP4":
        known = keeps is Keeps.ALL or release.has(packed.NVFP4_FORMULA_IN_EVERY_SPEC)
        return (nvfp4_row(head_size) + nvfp4_row(head_size_v), 0) if known else None
    if not mode.endswith("_PER_TOKEN_HEAD"):
        return None
    values = head_size + head_size_v
    if mode == "INT4_PER_TOKEN_HEAD" and keeps is not Keeps.WINDOW:
        # The class for sliding windows lacks the case: it counts a whole byte a value, the view half of it.
        values = head_size // 2 + head_size_v // 2
    return values, 2 * SCALE_BYTES


def _by_backend(mode: str, backend: str | None, head_size: int, head_size_v: int, release: Release) -> int | None:
    """What the backend writes into the spec: bytes of one head and token; None where it leaves the spec alone."""
    if backend == "TRITON_ATTN" and mode.endswith("_PER_TOKEN_HEAD"):
        values = head_size // 2 + head_size_v // 2 if mode.startswith("INT4") else head_size + head_size_v
        return values + 2 * SCALE_BYTES
    packs = backend == "MINIMAX_M3_SPARSE" and release.has(compressed.M3_PACKS_NVFP4)
    if mode == "NVFP4" and (backend == "FLASHINFER" or packs):
        return 2 * nvfp4_row(head_size)
    if backend == "TURBOQUANT" and mode.lower() in TURBOQUANT_BITS:
        return turboquant_slot(mode.lower(), head_size)
    return None
