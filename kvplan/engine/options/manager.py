"""The KV cache manager's own options: shared prefixes, and groups of several kinds.

Sources: `engine/arg_utils.py`, `config/vllm.py`.
"""

from __future__ import annotations

from kvplan.checkpoint.values import Checkpoint
from kvplan.engine.checks import features
from kvplan.engine.failures import HybridManagerRefused
from kvplan.engine.models.by_name import CHUNK_SIZE_IGNORED
from kvplan.engine.models.geometry import ModelGeometry
from kvplan.engine.options import connectors, given
from kvplan.engine.stop import config_refuses
from kvplan.engine.values import Stage
from kvplan.history import capacity, checks, compressed, models, state
from kvplan.launch.values import Launch

_ALLOW_CHUNKS = "VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE"


def prefix_caching(launch: Launch, geometry: ModelGeometry) -> bool:
    """Whether requests share the cache of a prefix: as asked, else where the model and the release allow it."""
    asked = launch.get("enable_prefix_caching")
    if geometry.never_shares_prefixes:
        return False
    encodes = given.flag(launch, "mm_encoder_only") or features.produces_encodings(launch)
    if encodes and geometry.multimodal and launch.release.has(checks.PRODUCERS_ENCODE_ONLY):
        return False
    if asked is not None:
        return bool(asked)
    generates_from_states = geometry.is_hybrid and geometry.runner_type != "pooling"
    return geometry.shares_prefixes and (
        not generates_from_states or launch.release.has(state.HYBRID_PREFIX_CACHING_BY_DEFAULT)
    )


def replays_windows(launch: Launch, version: str, *, prefix_caching: bool) -> bool:
    """Whether windows that can be replayed stay out of prefix caching (--swa-bounded-replay); `version` is the
    model runner, of which only V2 can."""
    release = launch.release
    if not release.has(compressed.WINDOWS_REPLAYED) or not given.flag(launch, "swa_bounded_replay"):
        return False
    ranks = given.number(launch, "prefill_context_parallel_size")
    spread = ranks > 1 and not (prefix_caching and release.has(compressed.WINDOWS_REPLAYED_ON_PREFILL_RANKS))
    return version == "V2" and not spread


def hybrid_manager_disabled(launch: Launch, checkpoint: Checkpoint, *, drafts_from_states: bool = False) -> bool:
    """Whether the hybrid KV cache manager is off, by flag or by what excludes it in this release.

    `drafts_from_states` for speculation from the target's hidden states, which excludes attention within chunks.
    """
    release = launch.release
    cause = None
    dropped = checkpoint.model_type in CHUNK_SIZE_IGNORED and release.has(models.MIMO_V2_DROPS_CHUNK_SIZE)
    chunks = checkpoint.text_config.get("attention_chunk_size") is not None and not dropped
    allowed = launch.environment.get(_ALLOW_CHUNKS, "1")
    if chunks and drafts_from_states:
        cause = "--speculative-config"
    elif chunks and allowed.strip().lower() in ("", "0", "false"):
        cause = f"{_ALLOW_CHUNKS}={allowed}"
    if release.has(capacity.EVENTS_DISABLE_HYBRID_MANAGER) and launch.get("kv_events_config") is not None:
        cause = "--kv-events-config"
    asked = launch.get("disable_hybrid_kv_cache_manager")
    if asked is None:
        return connectors.excludes_hybrid_manager(launch) or cause is not None
    if asked is False and cause is not None:
        raise config_refuses(
            Stage.OPTIONS,
            HybridManagerRefused(cause=cause),
            "Hybrid KV cache manager was explicitly enabled but is not supported in this configuration.",
        )
    return bool(asked)
