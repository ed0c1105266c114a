"""How much one step computes: tokens and sequences of a batch.

Sources: `engine/arg_utils.py`, `config/scheduler.py`.
"""

from __future__ import annotations

from kvplan.engine.checks import bounds
from kvplan.engine.failures import InvalidValue
from kvplan.engine.models import families
from kvplan.engine.models.geometry import ModelGeometry
from kvplan.engine.options import given
from kvplan.engine.stop import config_refuses, stop
from kvplan.engine.values import Stage
from kvplan.history import capacity, parallel
from kvplan.launch.values import Hardware, Launch
from kvplan.releases import Release

_GIB = 1 << 30
MANY_SEQUENCES = 128
"""From how many sequences on the config hooks of some architectures lower them."""
_BATCHED_DP_TOKENS = 256
"""Tokens a batch where experts work on batches of fixed size."""
_BATCHED_ALL2ALL = ("deepep_low_latency", "nixl_ep")


def sizes(launch: Launch, geometry: ModelGeometry, max_model_len: int) -> tuple[int, int]:
    """(max_num_batched_tokens, max_num_seqs): defaults by GPU memory and by who starts the engine, capped by each
    other."""
    release = launch.release
    tier = _large_gpu_tier(launch.hardware, release)
    asked_tokens, asked_seqs = launch.get("max_num_batched_tokens"), launch.get("max_num_seqs")
    usual = (8192, 16384, 16384) if launch.offline else (2048, 8192, 16384)
    default = _BATCHED_DP_TOKENS if _batched_dp_moe(launch) else usual[tier]
    tokens = int(asked_tokens) if asked_tokens is not None else default
    seqs = int(asked_seqs) if asked_seqs is not None else (256, 1024, 1024)[tier]
    chunked = given.value(launch, "enable_chunked_prefill")
    chunked = geometry.prefills_in_parts if chunked is None else bool(chunked)
    if launch.get("performance_mode") == "throughput":
        tokens *= 2 if asked_tokens is None else 1
        seqs *= 2 if asked_seqs is None else 1
    if asked_tokens is None:
        if not chunked:
            tokens = max(max_model_len, tokens)
        if release.has(capacity.MM_PREFIX_RAISES_BATCHED_TOKENS) and geometry.mm_prefix_item_tokens is not None:
            tokens = max(tokens, geometry.mm_prefix_item_tokens)
        tokens = min(seqs * max_model_len, tokens)
    if asked_seqs is None:
        seqs = min(seqs, tokens)
    bounds.check_batch_sizes(tokens, seqs)
    if tokens < max_model_len and not (chunked and geometry.attention != "encoder_decoder"):
        raise config_refuses(
            Stage.OPTIONS,
            InvalidValue(option="--max-num-batched-tokens", value=tokens),
            f"max_num_batched_tokens ({tokens}) is smaller than max_model_len ({max_model_len}).",
        )
    if tokens < seqs:
        raise config_refuses(
            Stage.OPTIONS,
            InvalidValue(option="--max-num-batched-tokens", value=tokens),
            f"max_num_batched_tokens ({tokens}) must be greater than or equal to max_num_seqs ({seqs}).",
        )
    _check_active(launch, seqs)
    if geometry.attention != "encoder_decoder":
        check_threshold(launch, max_model_len)
    hook = families.hook_of(geometry.architecture, release) if seqs >= MANY_SEQUENCES else None
    if hook is not None and hook.fewer_sequences is not None:
        seqs = hook.fewer_sequences
    return tokens, seqs


def _check_active(launch: Launch, seqs: int) -> None:
    """No more requests can be let in than the runner has room for (`SchedulerConfig.verify_max_model_len`)."""
    active = launch.get("max_num_active_seqs")
    if isinstance(active, int) and active > seqs:
        raise config_refuses(
            Stage.OPTIONS,
            InvalidValue(option="--max-num-active-seqs", value=active),
            f"max_num_active_seqs ({active}) cannot be greater than max_num_seqs ({seqs}).",
        )


def check_features(launch: Launch) -> None:
    """Raises StartupStops for options that releases list and do not implement."""
    for name in ("max_num_partial_prefills", "max_long_partial_prefills"):
        if given.value(launch, name) not in (None, 1):
            raise stop(
                Stage.OPTIONS,
                InvalidValue(option="--" + name.replace("_", "-"), value=launch.get(name)),
                "Concurrent Partial Prefill is not supported. We recommend to remove Concurrent Partial Prefill from "
                "your config.",
                exception="NotImplementedError",
            )


def check_threshold(launch: Launch, max_model_len: int) -> None:
    """What counts as a long prefill may not be longer than every request. Raises StartupStops."""
    threshold = launch.get("long_prefill_token_threshold") or 0
    if not launch.release.has(capacity.LONG_PREFILL_FITS_MODEL):
        return
    if threshold > max_model_len:
        raise config_refuses(
            Stage.OPTIONS,
            InvalidValue(option="--long-prefill-token-threshold", value=threshold),
            f"long_prefill_token_threshold ({threshold}) cannot be greater than the max_model_len ({max_model_len}).",
        )


def cause(launch: Launch) -> str:
    """Why `max_num_batched_tokens` is what it is, for people."""
    if launch.get("max_num_batched_tokens") is not None:
        return f"--max-num-batched-tokens {launch.get('max_num_batched_tokens')}"
    hardware = launch.hardware
    return f"default of the API server on {hardware.name} ({hardware.memory_bytes / _GIB:.0f} GiB)"


def _large_gpu_tier(hardware: Hardware, release: Release) -> int:
    """0 small, 1 for 70 GiB and more (A100 excepted), 2 for 160 GiB and more where the release knows that tier."""
    if hardware.memory_bytes >= 160 * _GIB and release.has(capacity.BATCHED_TOKENS_16K_ON_LARGE_GPUS):
        return 2
    gb10 = hardware.capability == (12, 1) and release.has(capacity.GB10_KEEPS_SMALL_BATCH_DEFAULTS)
    if hardware.memory_bytes >= 70 * _GIB and "a100" not in hardware.device_name.lower() and not gb10:
        return 1
    return 0


def _batched_dp_moe(launch: Launch) -> bool:
    """Whether experts work on small fixed batches: data and expert parallelism over a batched all-to-all backend."""
    if not launch.release.has(parallel.BATCHED_DP_TAKES_SMALL_BATCHES):
        return False
    batched = given.value(launch, "all2all_backend") in _BATCHED_ALL2ALL
    return batched and bool(launch.get("enable_expert_parallel")) and (launch.get("data_parallel_size") or 1) > 1
