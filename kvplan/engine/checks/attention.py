"""What an attention implementation refuses when a layer is built, although selection let its backend through.

Source: `__init__` of the Impl classes in `v1/attention/backends` (and its `mla` folder). Selection asks a backend
class what it supports; the implementation looks again, with the layer's own cache dtype and shape.
"""

from __future__ import annotations

from collections.abc import Mapping

from kvplan.engine.backends.software import fa_takes_fp8, fa_version, passes_for_quantised
from kvplan.engine.backends.values import BackendQuery
from kvplan.engine.cache_dtypes.packing import TURBOQUANT_BITS
from kvplan.engine.failures import ImplementationRefuses
from kvplan.engine.models.geometry import LayerGeometry
from kvplan.engine.stop import StartupStops, stop
from kvplan.engine.values import Stage
from kvplan.history import backends as backend_history
from kvplan.history import checks
from kvplan.launch.values import Hardware
from kvplan.releases import Release

_TRITON = {"TRITON_ATTN": "", "TRITON_ATTN_DIFFKV": "", "TRITON_MLA": " MLA"}
_NEEDS: Mapping[str, tuple[frozenset[str], str, str]] = {
    "alibi_sqrt": (
        frozenset({"TRITON_ATTN", "TRITON_ATTN_DIFFKV"}),
        "use_alibi_sqrt is not supported by backend {backend}.",
        "ValueError",
    ),
    "chunk_lookback": (
        frozenset({"TRITON_ATTN"}),
        "got an unexpected keyword argument 'chunk_lookback'",
        "TypeError",
    ),
    "flashinfer": (frozenset({"FLASHINFER"}), "Flint requires FlashInfer attention", "AssertionError"),
}
"""What a layer hands its backend, the backends that take it, and what the others say."""
_NATIVE_FP8 = (8, 9)
_BFLOAT16 = (8, 0)


def check(
    layer: LayerGeometry, backend: str, cache_dtype: str, query: BackendQuery, hardware: Hardware, release: Release
) -> None:
    """Raises StartupStops where the implementation of `backend` refuses the layer with this cache dtype."""
    refusal = _refusal(layer, backend, cache_dtype, query, hardware, release)
    if refusal is None:
        return
    message, exception = refusal
    raise _stop(layer, backend, cache_dtype, message, exception)


def _stop(layer: LayerGeometry, backend: str, cache_dtype: str, message: str, exception: str) -> StartupStops:
    return stop(
        Stage.BACKEND,
        ImplementationRefuses(backend=backend, cache_dtype=cache_dtype, layer=layer.name),
        message,
        exception=exception,
    )


def _refusal(
    layer: LayerGeometry, backend: str, cache_dtype: str, query: BackendQuery, hardware: Hardware, release: Release
) -> tuple[str, str] | None:
    quantised = passes_for_quantised(cache_dtype, release)
    if layer.needs is not None:
        backends, message, exception = _NEEDS[layer.needs]
        if backend not in backends:
            return message.replace("{backend}", backend), exception
    if backend in _TRITON:
        refusal = _triton(backend, cache_dtype, quantised, hardware, release)
        return _narrow(cache_dtype, quantised, release) if refusal is None and backend.endswith("DIFFKV") else refusal
    if backend == "TURBOQUANT" and cache_dtype not in TURBOQUANT_BITS:
        presets = ", ".join(TURBOQUANT_BITS)
        return f"Unknown TurboQuant cache dtype: {cache_dtype!r}. Valid presets: {presets}", "ValueError"
    if backend == "FLEX_ATTENTION":
        return _flex(layer, query, quantised)
    if backend in ("FLASH_ATTN", "FLASH_ATTN_DIFFKV"):
        refusal = _flash(cache_dtype, query, release) if quantised else None
        return _flash_sinks(query, release) if refusal is None and query.has_sink else refusal
    if backend == "FLASH_ATTN_MLA" and quantised:
        return "FlashAttnMLA V1 with FP8 KV cache not yet supported", "NotImplementedError"
    return None


def _triton(
    backend: str, cache_dtype: str, quantised: bool, hardware: Hardware, release: Release
) -> tuple[str, str] | None:
    mla = backend == "TRITON_MLA"
    if mla and quantised and release.has(checks.TRITON_MLA_HAS_NO_FP8):
        return "TritonMLA V1 with FP8 KV cache not yet supported", "NotImplementedError"
    if not release.has(checks.TRITON_MLA_CHECKS_CACHE_DTYPE if mla else checks.TRITON_CHECKS_CACHE_DTYPE):
        return None
    on = f"on {hardware.device_name} (compute capability {hardware.capability_text})"
    if cache_dtype.startswith("fp8") and hardware.capability < _NATIVE_FP8:
        suggested = "float16" if hardware.capability < _BFLOAT16 else "bfloat16"
        return (
            f"FP8 KV cache is not supported by the Triton{' MLA' if mla else ' attention'} backend {on}; native FP8 "
            f"(fp8e4nv) requires SM89+. Re-run with --kv-cache-dtype {suggested}."
        ), "ValueError"
    if cache_dtype == "bfloat16" and hardware.capability < _BFLOAT16:
        by = "by the Triton MLA backend " if mla else ""
        return (
            f"bfloat16 KV cache is not supported {by}{on}; bfloat16 requires SM80+. Re-run with --kv-cache-dtype "
            "float16."
        ), "ValueError"
    return None


def _narrow(cache_dtype: str, quantised: bool, release: Release) -> tuple[str, str] | None:
    """What TRITON_ATTN_DIFFKV asks of the cache dtype beside what TRITON_ATTN does."""
    got = f"KV cache (got kv_cache_dtype={cache_dtype!r})."
    if release.has(checks.TRITON_DIFFKV_TAKES_FP8):
        if quantised and cache_dtype not in ("fp8", "fp8_e4m3"):
            return f"TritonAttentionDiffKVBackend supports only fp8/fp8_e4m3 quantized {got}", "NotImplementedError"
        return None
    if quantised:
        return f"TritonAttentionDiffKVBackend does not yet support quantized {got}", "NotImplementedError"
    if cache_dtype.endswith("per_token_head"):
        return "TritonAttentionDiffKVBackend does not support per-token-head quantization.", "NotImplementedError"
    return None


def _flash_sinks(query: BackendQuery, release: Release) -> tuple[str, str] | None:
    """FlashAttention 2 has no learnable sinks; only a backend that the model brings was not asked about that before."""
    versions = (3, 4) if release.has(backend_history.FLASH_ATTN_SINKS_ON_FA4) else (3,)
    if fa_version(query, release) in versions:
        return None
    return "Sinks are only supported in FlashAttention 3", "AssertionError"


def _flex(layer: LayerGeometry, query: BackendQuery, quantised: bool) -> tuple[str, str] | None:
    if query.logits_soft_cap:
        return "FlexAttention does not support logits soft cap yet.", "NotImplementedError"
    if query.num_heads % max(1, query.num_kv_heads):
        return "", "AssertionError"
    if layer.shares_cache_of is not None:
        return "FlexAttention does not support kv sharing yet.", "NotImplementedError"
    if quantised:
        return "FlexAttention does not support quantized kv-cache. Yet", "NotImplementedError"
    return None


def _flash(cache_dtype: str, query: BackendQuery, release: Release) -> tuple[str, str] | None:
    if release.has(checks.FLASH_ATTN_ASKS_FOR_FA3):
        if query.major == 9 and fa_version(query, release) == 3:
            return None
        return "FlashAttention does not support fp8 kv-cache on this device.", "NotImplementedError"
    if release.has(checks.FLASH_ATTN_ASKS_WITH_SHAPE) and not fa_takes_fp8(
        query, release, head_size=query.head_size, head_size_v=query.head_size, has_sinks=query.has_sink
    ):
        return f"FlashAttention does not support {cache_dtype} kv-cache on this device.", "NotImplementedError"
    return None
