"""What a checkpoint's quantisation means for the cache of one layer: compressed-tensors' `kv_cache_scheme`, fp8_e5m2.

Only ordinary attention layers look at a `kv_cache_scheme`; MLA layers pass it over. Sources:
`CompressedTensorsKVCacheMethod` (layers/quantization/compressed_tensors/compressed_tensors.py),
`_init_kv_cache_quant` (layers/attention/attention.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.engine.backends.facts import Feature
from kvplan.engine.backends.selection import BY_NAME
from kvplan.engine.backends.values import BackendQuery
from kvplan.engine.failures import CacheSchemeRefused
from kvplan.engine.stop import StartupStops, stop
from kvplan.engine.values import Stage
from kvplan.history import backends, packed
from kvplan.releases import Release

_SUPPORTED = ("tensor", "attn_head")
_STRATEGIES = ("tensor", "channel", "group", "block", "token", "tensor_group", "attn_head")
"""The strategies that compressed-tensors knows."""


def compressed_tensors_scheme(quantization: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """The `kv_cache_scheme` of a compressed-tensors checkpoint, or None."""
    if quantization is None or quantization.get("quant_method") != "compressed-tensors":
        return None
    scheme = quantization.get("kv_cache_scheme")
    return scheme if isinstance(scheme, Mapping) else None


def check_scheme(scheme: Mapping[str, Any], layer: str, backend: str, query: BackendQuery, release: Release) -> None:
    """Raise StartupStops where a layer that was given `backend` refuses the scheme, whatever its cache dtype."""
    kind, bits = scheme.get("type"), scheme.get("num_bits")
    wrong_kind, wrong_bits = kind != "float", bits != 8
    if (wrong_kind or wrong_bits) if release.has(packed.KV_SCHEME_MUST_BE_FP8) else (wrong_kind and wrong_bits):
        raise _refusal(
            "Currently supported kv cache quantization is num_bits=8, type=float, however received "
            f"num_bits={bits}, type={kind}",
            layer,
            "num_bits and type",
        )
    strategy = scheme.get("strategy")
    if strategy not in _STRATEGIES and release.has(packed.KV_SCHEME_STRATEGY_IS_ENUM):
        raise _refusal(f"{strategy!r} is not a valid QuantizationStrategy", layer, "strategy", exception="ValueError")
    if strategy not in _SUPPORTED:
        raise _refusal(
            f"Invalid strategy for compressed-tensors KV cache. Expected strategies: {_SUPPORTED}, found strategy: "
            f"{strategy}",
            layer,
            "strategy",
        )
    if not scheme.get("symmetric"):
        raise _refusal(
            "Only support symmetric scaling factor for compressed-tensors KV cache. However found symmetric: "
            f"{scheme.get('symmetric')}",
            layer,
            "symmetric",
        )
    if strategy != "attn_head" or release.has(backends.BACKEND_SEES_PER_HEAD_SCALES):
        return
    if not BY_NAME[backend].has(Feature.PER_HEAD_SCALES, query, release):
        raise _refusal(
            f"Layer Attention on {backend} does not support per-head scales.",
            layer,
            "strategy",
            exception="AssertionError",
        )


def _refusal(message: str, layer: str, field: str, *, exception: str = "NotImplementedError") -> StartupStops:
    return stop(Stage.LAYERS, CacheSchemeRefused(layer=layer, field=field), message, exception=exception)
