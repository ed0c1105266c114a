"""The names that `--attention-backend` takes, release by release (`AttentionBackendEnum`)."""

from __future__ import annotations

from collections.abc import Mapping

from kvplan.engine.failures import InvalidValue
from kvplan.engine.stop import StartupStops, stop
from kvplan.engine.values import Stage
from kvplan.history import checks
from kvplan.launch.values import PARSER_REFUSES
from kvplan.releases import ALWAYS, Release, Span

OPTION = "--attention-backend"

_NAMES: tuple[tuple[str, Span], ...] = (
    ("FLASH_ATTN", ALWAYS),
    ("FLASH_ATTN_DIFFKV", ALWAYS),
    ("TRITON_ATTN", ALWAYS),
    ("TRITON_ATTN_DIFFKV", Span(since="0.24.0")),
    ("TRITON_FLASH_ATTN", Span(since="0.30.0")),
    ("ROCM_ATTN", ALWAYS),
    ("ROCM_SEGMENTED_ATTN", Span(since="0.32.0")),
    ("ROCM_AITER_MLA", ALWAYS),
    ("ROCM_AITER_TRITON_MLA", ALWAYS),
    ("ROCM_AITER_FA", ALWAYS),
    ("ROCM_AITER_MLA_SPARSE", ALWAYS),
    ("XPU_MLA_SPARSE", Span(since="0.18.1")),
    ("TORCH_SDPA", ALWAYS),
    ("FLASHINFER", ALWAYS),
    ("TRITON_FLASHINFER", Span(since="0.30.0")),
    ("FLASHINFER_MLA", ALWAYS),
    ("TOKENSPEED_MLA", Span(since="0.21.0")),
    ("FLASHINFER_MLA_SPARSE", Span(since="0.17.1")),
    ("FLASHINFER_MLA_SPARSE_SM120", Span(since="0.24.0")),
    ("FLASHINFER_MLA_SPARSE_SM90", Span(since="0.30.0")),
    ("TRITON_MLA", ALWAYS),
    ("CUTLASS_MLA", ALWAYS),
    ("FLASHMLA", ALWAYS),
    ("FLASHMLA_SPARSE", ALWAYS),
    ("FLASHMLA_SPARSE_DSV4", Span(since="0.23.0")),
    ("FLASHINFER_MLA_SPARSE_DSV4", Span(since="0.23.0")),
    ("ROCM_FLASHMLA_SPARSE_DSV4", Span(since="0.23.0")),
    ("FLASHMLA_SPARSE_DSV41", Span(since="0.30.0")),
    ("FLASHINFER_MLA_SPARSE_DSV41", Span(since="0.30.0")),
    ("ROCM_FLASHMLA_SPARSE_DSV41", Span(since="0.33.0")),
    ("FLASHMLA_MEGA_ATTN_DSV41", Span(since="0.31.0")),
    ("B12X", Span(since="0.30.0")),
    ("FLASH_ATTN_MLA", ALWAYS),
    ("FLASH_ATTN_MLA_SPARSE", Span(since="0.25.1")),
    ("FLASH_ATTN_MLA_SPARSE_FA4", Span(since="0.33.0")),
    ("MINIMAX_M3_SPARSE", Span(since="0.24.0")),
    ("CUTLASS_MSA", Span(since="0.27.1")),
    ("TRITON_MSA", Span(since="0.27.1")),
    ("STEP5_DSA", Span(since="0.33.0")),
    ("NO_ATTENTION", ALWAYS),
    ("FLEX_ATTENTION", ALWAYS),
    ("TREE_ATTN", Span(until="0.20.2")),
    ("HPC_ATTN", Span(since="0.25.1")),
    ("ROCM_AITER_UNIFIED_ATTN", ALWAYS),
    ("CPU_ATTN", ALWAYS),
    ("CPU_MLA", Span(since="0.28.0")),
    ("AMX_MLA", Span(since="0.29.0")),
    ("TURBOQUANT", Span(since="0.20.2")),
    ("ROCM_OCTAVE", Span(since="0.33.0")),
    ("ULTRAQUANT", Span(since="0.32.0")),
    ("CUSTOM", ALWAYS),
)
"""The names in the order of the newest release."""


def known(release: Release) -> tuple[str, ...]:
    """The backends that `release` can be asked for."""
    return tuple(name for name, span in _NAMES if release.within(span))


_KINDS = (
    *("chunked_local_attention", "cross_attention", "encoder_only_attention", "full_attention", "mamba"),
    *("mla_attention", "sink_full_attention", "sliding_window", "sliding_window_mla", "unknown"),
)
"""What `backend_per_kind` of --attention-config has names for (`KVCacheSpecKind`)."""


def check_kinds(asked: Mapping[str, object], release: Release) -> None:
    """Raises StartupStops for a kind or backend of `backend_per_kind` that does not exist; "auto" is none of them."""
    accepted = known(release)
    for kind, name in asked.items():
        if kind not in _KINDS:
            message = f"Unknown KV cache group kind '{kind}' in backend_per_kind. Valid kinds are: {', '.join(_KINDS)}."
            raise _in_config("backend_per_kind", message, kind, _KINDS)
        if isinstance(name, str) and name.upper() not in accepted:
            raise _in_config("backend_per_kind", _unknown(name.upper(), accepted), name.upper(), accepted)


def check(asked: object, release: Release, *, nested: bool = False) -> None:
    """Raises StartupStops for a name that the release does not have; any case is fine.

    A name `nested` in --attention-config is refused while the command line is parsed.
    """
    auto = release.has(checks.AUTO_IS_A_BACKEND_NAME)
    if not isinstance(asked, str) or (auto and asked.strip().lower() == "auto"):
        return
    name = asked.strip().upper()
    accepted = known(release)
    if name in accepted:
        return
    message = _unknown(name, accepted)
    if nested:
        raise _in_config("backend", message, name, accepted)
    raise stop(
        Stage.OPTIONS,
        InvalidValue(option=OPTION, value=name, accepted=accepted),
        message,
        exception="ValueError",
    )


def _unknown(name: str, accepted: tuple[str, ...]) -> str:
    return f"Unknown attention backend: '{name}'. Valid options are: {', '.join(accepted)}"


def _in_config(field: str, message: str, value: str, accepted: tuple[str, ...]) -> StartupStops:
    """What the parser says of a value within --attention-config."""
    where = "argument --attention-config/-ac: 1 validation error for AttentionConfig"
    return stop(
        Stage.OPTIONS,
        InvalidValue(option=OPTION, value=value, accepted=accepted),
        f"{where}\n{field}\n  Value error, {message}",
        exception=PARSER_REFUSES,
    )
