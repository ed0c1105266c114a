"""Choosing the backend of one layer as vLLM's CUDA platform does: every candidate with its reasons.

The order and wording of reasons follow AttentionBackend.validate_configuration (vllm/v1/attention/backend.py); the
choice follows CudaPlatform.get_attn_backend_cls (vllm/platforms/cuda.py).
"""

from __future__ import annotations

from dataclasses import replace

from kvplan.engine.backends import priority
from kvplan.engine.backends.custom import OWNED
from kvplan.engine.backends.facts import Backend, Feature
from kvplan.engine.backends.latent import LATENT
from kvplan.engine.backends.standard import STANDARD
from kvplan.engine.backends.values import BackendDecision, BackendQuery
from kvplan.engine.cache_dtypes.dtypes import known_on_cuda
from kvplan.history import backends as history
from kvplan.releases import Behaviour, Release

BY_NAME: dict[str, Backend] = {backend.name: backend for backend in (*STANDARD, *LATENT, *OWNED)}
"""Every backend kvplan knows, by vLLM's enum name."""

BLOCK_SIZE_REASON = "block_size not supported"

_NEEDS: tuple[tuple[str, Feature, str, Behaviour], ...] = (
    (
        "has_sliding_window",
        Feature.SLIDING_WINDOW,
        "sliding window not supported",
        history.BACKEND_SEES_SLIDING_WINDOW,
    ),
    ("use_rswa", Feature.RSWA, "R-SWA not supported", history.BACKEND_SEES_DCP),
    (
        "use_non_causal",
        Feature.NON_CAUSAL,
        "non-causal attention not supported",
        history.BACKEND_SEES_NON_CAUSAL,
    ),
    (
        "non_causal_dcp",
        Feature.NON_CAUSAL_DCP,
        "non-causal MLA attention with DCP not supported",
        history.BACKEND_SEES_NON_CAUSAL_DCP,
    ),
    (
        "use_batch_invariant",
        Feature.BATCH_INVARIANT,
        "batch invariance not supported",
        history.BACKEND_SEES_NON_CAUSAL,
    ),
    ("use_pcp", Feature.PCP, "PCP not supported", history.BACKEND_SEES_SLIDING_WINDOW),
    ("use_dcp", Feature.DCP, "DCP not supported", history.BACKEND_SEES_DCP),
    (
        "use_adaptive_verification",
        Feature.QUERY_LENS_MISMATCH,
        "device-cpu query lens mismatch not supported, this is needed for adaptive verification",
        history.BACKEND_SEES_ADAPTIVE_VERIFICATION,
    ),
)
"""What a layer may need -> the feature, vLLM's refusal, and the releases that ask (in vLLM's order)."""


_UNREGISTERED = frozenset({"CUSTOM", "TORCH_SDPA"})
"""Names without a class of their own, until a plugin brings one."""


def reasons(backend: Backend, query: BackendQuery, release: Release) -> tuple[str, ...]:
    """Every objection to `backend` for this layer, in vLLM's order and words; empty when it fits."""
    found: list[str] = []

    def object_if(wrong: bool, reason: str) -> None:
        if wrong:
            found.append(reason)

    def lacks(feature: Feature) -> bool:
        return not backend.has(feature, query, release)

    object_if(not backend.takes_head_size(query, release), "head_size not supported")
    object_if(query.dtype not in backend.dtypes, "dtype not supported")
    object_if(not backend.takes_cache_dtype(query, release), "kv_cache_dtype not supported")
    object_if(not backend.takes_block_size(query.block_size, query, release), BLOCK_SIZE_REASON)
    object_if(
        query.use_mm_prefix and lacks(Feature.MM_PREFIX),
        "partial multimodal token full attention not supported",
    )
    object_if(query.use_mla != backend.mla, "MLA not supported" if query.use_mla else "non-MLA not supported")
    named = release.has(history.SINK_REASON_NAMES_ATTENTION_SINKS)
    object_if(
        query.has_sink and lacks(Feature.SINK),
        "attention sinks not supported" if named else "sink setting not supported",
    )
    object_if(
        query.use_sparse != backend.sparse,
        "sparse not supported" if query.use_sparse else "non-sparse not supported",
    )
    object_if(
        query.use_per_head_quant_scales
        and release.has(history.BACKEND_SEES_PER_HEAD_SCALES)
        and lacks(Feature.PER_HEAD_SCALES),
        "per-head quant scales not supported",
    )
    object_if(not backend.takes_capability(query, release), "compute capability not supported")
    object_if(query.attn_type not in backend.attn_types, f"attention type {query.attn_type} not supported")
    for need, feature, reason, behaviour in _NEEDS:
        object_if(_needs(query, need) and release.has(behaviour) and lacks(feature), reason)
    objection = None if backend.combination is None else backend.combination(query, release)
    if objection is not None:
        found.append(objection)
    return tuple(found)


def _needs(query: BackendQuery, need: str) -> bool:
    if need == "non_causal_dcp":
        return query.use_mla and query.use_non_causal and query.use_dcp
    return bool(getattr(query, need))


def select(query: BackendQuery, release: Release) -> BackendDecision:
    """The backend that vLLM gives the layer, or the error with which it refuses."""
    if not release.has(history.BACKEND_SEES_BLOCK_SIZE):
        query = replace(query, block_size=None)
    if query.wanted is not None:
        return _requested(query.wanted, query, release)
    rejected: list[tuple[str, tuple[str, ...]]] = []
    valid: list[str] = []
    precluded: list[str] = []
    for name in priority.order(query, release):
        objections = reasons(BY_NAME[name], query, release)
        if not objections:
            valid.append(name)
            continue
        rejected.append((name, objections))
        if not valid and objections == (BLOCK_SIZE_REASON,):
            precluded.append(name)
    if valid:
        return BackendDecision(valid[0], tuple(rejected), tuple(valid), precluded_by_block_size=tuple(precluded))
    listed = ", ".join(f"{name}: [{', '.join(objections)}]" for name, objections in rejected)
    asked = f"head_size={query.head_size}, dtype=torch.{query.dtype}, kv_cache_dtype={query.kv_cache_dtype}, …"
    message = f"No valid attention backend found for cuda with AttentionSelectorConfig({asked}). Reasons: {{{listed}}}."
    return BackendDecision(None, tuple(rejected), error=message, error_type="ValueError")


def _requested(name: str, query: BackendQuery, release: Release) -> BackendDecision:
    if name in _UNREGISTERED:
        message = (
            f"Backend {name} must be registered before use. Use register_backend(Backend.{name}, "
            "'your.module.YourClass')"
        )
        return BackendDecision(None, ((name, ("not registered",)),), error=message, error_type="ValueError")
    backend = BY_NAME.get(name)
    if backend is None or not release.within(backend):
        objections: tuple[str, ...] = ("not an attention backend for CUDA in this release",)
    else:
        objections = reasons(backend, query, release)
    if not objections:
        return BackendDecision(name, valid=(name,))
    message = (
        f"Selected backend AttentionBackendEnum.{name} is not valid for this configuration. Reason: {list(objections)}"
    )
    return BackendDecision(None, ((name, objections),), error=message, error_type="ValueError")


def dtypes_with_backend(query: BackendQuery, release: Release) -> tuple[str, ...]:
    """The cache dtypes for which this layer would find a backend on this GPU."""
    return tuple(
        dtype
        for dtype in known_on_cuda(release)
        if select(replace(query, kv_cache_dtype=dtype, run_cache_dtype=None), release).backend is not None
    )
