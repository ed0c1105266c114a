"""Which quantisation methods bring a KV cache method to an attention layer, and so refuse an fp8_e5m2 cache.

Sources: `get_quant_method` of the quantisation configs (model_executor/layers/quantization) and
`_init_kv_cache_quant` (model_executor/layers/attention/attention.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.history import cache, checks
from kvplan.releases import Release

_FP8 = frozenset({"fp8", "deepseek_v4_fp8", "ptpc_fp8", "quark"})
_MODELOPT = frozenset({"modelopt", "modelopt_fp4", "modelopt_mxfp8"})


def refuses_e5m2(method: str | None, section: Mapping[str, Any] | None, *, mla: bool, release: Release) -> bool:
    """Whether a layer with this quantisation refuses an fp8_e5m2 cache (it would load scales made for e4m3).

    `section` is the checkpoint's quantisation section; the methods of MLA layers are ModelOpt's only.
    """
    if method is None:
        return False
    if method in _MODELOPT:
        return not mla or release.has(checks.MODELOPT_CACHE_METHOD_ON_MLA)
    if mla:
        return False
    if method == "modelopt_mixed":
        return _declares_cache(section)
    if method == "compressed-tensors":
        if release.has(cache.E5M2_ALLOWED_WITHOUT_KV_SCHEME):
            return section is not None and section.get("kv_cache_scheme") is not None
        return True
    if method == "fp8" and section is None:
        return not release.has(checks.QUANTIZE_FP8_IS_ONLINE)
    return method in _FP8


def _declares_cache(section: Mapping[str, Any] | None) -> bool:
    """Whether a ModelOpt checkpoint of mixed precision says that its cache is quantised."""
    if section is None:
        return False
    inner = section.get("quantization", section)
    sections = (inner, section) if isinstance(inner, Mapping) else (section,)
    return any(each.get("kv_cache_quant_algo") or each.get("kv_cache_scheme") for each in sections)
