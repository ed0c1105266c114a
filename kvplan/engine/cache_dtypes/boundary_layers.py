"""What TurboQuant and UltraQuant do to a launch before any layer exists: boundary layers and FlashAttention 2.

The first and last two layers keep the model's dtype: vLLM adds their indices to the skip list itself, with everything
that a skip list brings along. Models with state layers get no boundary. Sources: `create_engine_config`
(engine/arg_utils.py), `get_boundary_skip_layers` (layers/quantization/turboquant/config.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.checkpoint.values import Checkpoint
from kvplan.engine.failures import SkipTokenNotANumber, TurboquantOnHybrid
from kvplan.engine.stop import stop
from kvplan.engine.values import Stage
from kvplan.history import packed
from kvplan.releases import Release

BOUNDARY = 2
"""Layers at either end of the model that keep its dtype."""
FLASH_ATTENTION = 2
"""The one FlashAttention version that works beside these layouts."""


def applies(cache_dtype: str) -> bool:
    """Whether the cache dtype brings boundary layers and pins FlashAttention."""
    return cache_dtype.startswith("turboquant_") or cache_dtype == "ultraquant_4bit"


def skip_tokens(
    given: tuple[str, ...], cache_dtype: str, checkpoint: Checkpoint, *, is_hybrid: bool, release: Release
) -> tuple[str, ...]:
    """The skip list with the boundary layers, in vLLM's order. Raises StartupStops where vLLM refuses.

    48 layers: 0, 1, 46 and 47 are added.
    """
    if is_hybrid and release.has(packed.TURBOQUANT_REFUSES_HYBRIDS):
        raise _refusal(
            "TurboQuant KV cache is not supported for hybrid (attention + Mamba) models. Boundary layer protection "
            "requires uniform attention layers.",
            cache_dtype,
        )
    if is_hybrid:
        if not _attention_indices(checkpoint.text_config, checkpoint.config):
            raise _refusal(
                "TurboQuant KV cache requires identifiable full-attention layers, but none were found in the hybrid "
                "model config.",
                cache_dtype,
            )
        added: set[str] = set()
    else:
        added = set(boundary_layers(int(checkpoint.text_config.get("num_hidden_layers") or 0)))
    merged = set(given) | added
    if not release.has(packed.TURBOQUANT_SORTS_BY_NUMBER):
        return tuple(sorted(merged))
    for token in sorted(merged):
        try:
            int(token)
        except ValueError as error:
            raise stop(Stage.OPTIONS, SkipTokenNotANumber(token=token, cache_dtype=cache_dtype), str(error)) from None
    return tuple(sorted(merged, key=int))


def boundary_layers(num_layers: int) -> tuple[str, ...]:
    """Indices of the layers at both ends, as tokens of a skip list; of a tiny model each layer once."""
    width = min(BOUNDARY, num_layers // 2)
    ends = {*range(width), *range(num_layers - width, num_layers)}
    return tuple(str(index) for index in sorted(ends))


def _refusal(message: str, cache_dtype: str) -> Exception:
    return stop(Stage.OPTIONS, TurboquantOnHybrid(cache_dtype=cache_dtype), message, exception="NotImplementedError")


def _attention_indices(text: Mapping[str, Any], config: Mapping[str, Any]) -> list[int]:
    """The full-attention layers that the config of a hybrid model names, in one of the three ways vLLM knows."""
    for source, key, names in (
        (text, "layer_types", ("full_attention", "attention")),
        (text, "layers_block_type", ("attention", "hybrid")),
        (config, "attn_type_list", (1,)),
    ):
        listed = source.get(key)
        if listed is not None:
            return [index for index, kind in enumerate(listed) if kind in names]
    return []
