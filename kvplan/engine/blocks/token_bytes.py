"""What vLLM takes one token of one attention layer to cost when it aligns block sizes.

The prices use the model-level heads and head size, whatever the single layers have. Sources:
`_align_heterogeneous_kv_block_size` and `_align_hybrid_block_size` (platforms/interface.py).
"""

from __future__ import annotations

import math

from kvplan.engine.cache_dtypes.dtypes import quant_mode, storage_dtype
from kvplan.engine.cache_dtypes.packing import TURBOQUANT_BITS, turboquant_slot
from kvplan.engine.config import EngineConfig
from kvplan.engine.models.geometry import ModelGeometry
from kvplan.engine.parallelism.split import Split
from kvplan.engine.specs.base import attention_token_bytes


def key_value_bytes(
    geometry: ModelGeometry, config: EngineConfig, split: Split, cache_dtype: str, backend: str | None
) -> int:
    """Bytes of a key and a value in a cache of `cache_dtype` as `backend`, the model's first one, lays it out.

    An MLA model has one head. A layout that this backend does not have counts as dense: with TurboQuant, whose
    first layers keep the model's dtype, Llama-3-8B is priced at 8 * (128 + 128) = 2,048 bytes, not 1,072.
    """
    return attention_token_bytes(
        config.release,
        num_kv_heads=1 if geometry.use_mla else split.heads(geometry.total_kv_heads),
        head_size=geometry.head_size,
        head_size_v=None,
        dtype=storage_dtype(cache_dtype, config.model_dtype),
        sliding=False,
        quant_mode=quant_mode(cache_dtype, config.release),
        backend=backend,
    )


def beside_states(
    geometry: ModelGeometry, config: EngineConfig, split: Split, cache_dtype: str, backend: str | None
) -> int:
    """Bytes of a key and a value as blocks are aligned with the states of a hybrid model that has no MLA.

    TurboQuant is priced as packed; with a skip list the least common multiple with an unquantised token keeps both
    kinds of pages alike.
    """
    if cache_dtype not in TURBOQUANT_BITS:
        return key_value_bytes(geometry, config, split, cache_dtype, backend)
    packed = split.heads(geometry.total_kv_heads) * turboquant_slot(cache_dtype, geometry.head_size)
    if not config.skip_tokens:
        return packed
    return math.lcm(packed, key_value_bytes(geometry, config, split, "auto", backend))
