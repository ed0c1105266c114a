"""What `--use-replayssm` cannot be combined with. Source: `VllmConfig.validate_mamba_cached_kernel` (config/vllm.py).

Nemotron-H keeps its latest inputs beside a state and computes the newest states anew; with drafts Kimi's linear
attention recovers the states before them (RecoverSSM).
"""

from __future__ import annotations

from kvplan.engine.failures import ReplayStatesRefused
from kvplan.engine.models.geometry import ModelGeometry
from kvplan.engine.options import connectors, given
from kvplan.engine.stop import config_refuses
from kvplan.engine.values import Stage
from kvplan.history import state as history
from kvplan.launch.values import Launch

_RECOVER = ("KimiLinearForCausalLM", "KimiK3ForConditionalGeneration")
_LONGEST_FLASHINFER_RING = 16


def check(launch: Launch, geometry: ModelGeometry, *, mode: str, backend: str, drafts: int, version: str) -> None:
    """Raises StartupStops where the option does not go with the model or with other options.

    `mode` is `mamba_cache_mode`, `backend` what updates the states, `drafts` the speculative tokens, `version` the
    model runner.
    """
    if not launch.get("use_replayssm"):
        return
    message = _objection(launch, geometry, mode, backend, drafts, version)
    if message is None and connectors.transfer(launch) is not None and not _recovers(geometry, drafts, launch):
        message = "--use-replayssm is incompatible with KV connectors (P/D disaggregation, KV cache offload)"
    if message is not None:
        raise config_refuses(Stage.OPTIONS, ReplayStatesRefused(option="--use-replayssm"), message)


def _objection(
    launch: Launch, geometry: ModelGeometry, mode: str, backend: str, drafts: int, version: str
) -> str | None:
    release = launch.release
    if not geometry.replays_states:
        if release.has(history.STATES_RECOVERED):
            return f"--use-replayssm is not supported for architecture {geometry.architecture!r}"
        return f"--use-replayssm is only supported for Nemotron-H models (got architecture {geometry.architecture!r})"
    if not release.has(history.REPLAY_RING_LONGER_FOR_FLASHINFER):
        return _first(geometry, mode, backend, drafts, recovers=release.has(history.STATES_RECOVERED))
    ring = given.number(launch, "replayssm_buffer_len")
    with_drafts = release.has(history.REPLAY_RING_COUNTS_DRAFTS)
    if with_drafts and backend == "flashinfer" and ring > _LONGEST_FLASHINFER_RING:
        return f"FlashInfer ReplaySSM requires --replayssm-buffer-len <= {_LONGEST_FLASHINFER_RING}"
    if drafts and (not with_drafts or geometry.architecture in _RECOVER):
        return _recovered(launch, geometry, mode, backend, version)
    if drafts:
        return _drafted(mode, backend, ring, drafts)
    if mode == "all":
        return "--use-replayssm supports prefix caching only in align mode; pass --mamba-cache-mode align"
    if backend == "flashinfer":
        if mode != "align":
            return None
        if with_drafts:
            return "FlashInfer ReplaySSM does not support prefix caching yet; use --disable-prefix-caching"
        return "FlashInfer ReplaySSM does not support --mamba-cache-mode align yet; use none"
    if backend != "triton":
        return "--use-replayssm requires --mamba-backend triton or flashinfer"
    if version == "V2":
        return "Triton ReplaySSM requires Model Runner V1; use --mamba-backend flashinfer or Model Runner V1"
    return None


def _first(geometry: ModelGeometry, mode: str, backend: str, drafts: int, *, recovers: bool) -> str | None:
    """The releases that know one kernel."""
    if drafts and recovers:
        if geometry.architecture not in _RECOVER:
            return "RecoverSSM is only supported for Kimi-K3 KDA"
    elif mode == "all":
        return "--use-replayssm supports prefix caching only in align mode; pass --mamba-cache-mode align"
    elif drafts:
        return "--use-replayssm does not support speculative decoding"
    return None if backend == "triton" else "--use-replayssm requires --mamba-backend triton"


def _recovered(launch: Launch, geometry: ModelGeometry, mode: str, backend: str, version: str) -> str | None:
    by_prefix = launch.release.has(history.STATE_MODE_FOLLOWS_PREFIX_CACHING)
    if geometry.architecture not in _RECOVER:
        return "RecoverSSM is only supported for Kimi-K3 KDA"
    if given.flag(launch, "enable_mamba_cache_stochastic_rounding"):
        return (
            "RecoverSSM supports bfloat16/float32 SSM state caches, not --enable-mamba-cache-stochastic-rounding, "
            "which requires an explicit float16 cache"
        )
    if mode == "all":
        return "RecoverSSM supports only none and align Mamba cache modes"
    if mode == "align" and version == "V1":
        what = "prefix caching" if by_prefix else "align mode"
        return f"RecoverSSM with {what} requires VLLM_USE_V2_MODEL_RUNNER=1"
    if given.number(launch, "pipeline_parallel_size") > 1:
        return "RecoverSSM currently requires pipeline_parallel_size=1"
    return None if backend == "triton" else "RecoverSSM requires --mamba-backend triton"


def _drafted(mode: str, backend: str, ring: int, drafts: int) -> str | None:
    if mode != "none":
        return "FlashInfer ReplaySSM speculative decoding does not support prefix caching; use --disable-prefix-caching"
    if ring < 1 + drafts:
        return (
            "FlashInfer ReplaySSM speculative decoding requires --replayssm-buffer-len >= 1 + num_speculative_tokens "
            f"({1 + drafts}); got {ring}"
        )
    if backend != "flashinfer":
        return "Mamba2 ReplaySSM speculative decoding requires --mamba-backend flashinfer"
    return None


def _recovers(geometry: ModelGeometry, drafts: int, launch: Launch) -> bool:
    """Whether the states of a request lie in plain pages, which connectors carry."""
    return bool(drafts) and geometry.architecture in _RECOVER and launch.release.has(history.RECOVERED_STATES_MOVE)
