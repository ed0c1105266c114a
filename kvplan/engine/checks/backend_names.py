"""The names that `--attention-backend` takes, release by release (`AttentionBackendEnum`)."""

from __future__ import annotations

from kvplan.engine.failures import InvalidValue
from kvplan.engine.stop import stop
from kvplan.engine.values import Stage
from kvplan.history import checks
from kvplan.launch.values import PARSER_REFUSES
from kvplan.releases import Release

OPTION = "--attention-backend"

_NAMES: tuple[tuple[str, str | None, str | None], ...] = (
    ("FLASH_ATTN", None, None),
    ("FLASH_ATTN_DIFFKV", None, None),
    ("TRITON_ATTN", None, None),
    ("TRITON_ATTN_DIFFKV", "0.24.0", None),
    ("TRITON_FLASH_ATTN", "0.30.0", None),
    ("ROCM_ATTN", None, None),
    ("ROCM_SEGMENTED_ATTN", "0.32.0", None),
    ("ROCM_AITER_MLA", None, None),
    ("ROCM_AITER_TRITON_MLA", None, None),
    ("ROCM_AITER_FA", None, None),
    ("ROCM_AITER_MLA_SPARSE", None, None),
    ("XPU_MLA_SPARSE", "0.18.1", None),
    ("TORCH_SDPA", None, None),
    ("FLASHINFER", None, None),
    ("TRITON_FLASHINFER", "0.30.0", None),
    ("FLASHINFER_MLA", None, None),
    ("TOKENSPEED_MLA", "0.21.0", None),
    ("FLASHINFER_MLA_SPARSE", "0.17.1", None),
    ("FLASHINFER_MLA_SPARSE_SM120", "0.24.0", None),
    ("FLASHINFER_MLA_SPARSE_SM90", "0.30.0", None),
    ("TRITON_MLA", None, None),
    ("CUTLASS_MLA", None, None),
    ("FLASHMLA", None, None),
    ("FLASHMLA_SPARSE", None, None),
    ("FLASHMLA_SPARSE_DSV4", "0.23.0", None),
    ("FLASHINFER_MLA_SPARSE_DSV4", "0.23.0", None),
    ("ROCM_FLASHMLA_SPARSE_DSV4", "0.23.0", None),
    ("FLASHMLA_SPARSE_DSV41", "0.30.0", None),
    ("FLASHINFER_MLA_SPARSE_DSV41", "0.30.0", None),
    ("ROCM_FLASHMLA_SPARSE_DSV41", "0.33.0", None),
    ("FLASHMLA_MEGA_ATTN_DSV41", "0.31.0", None),
    ("B12X", "0.30.0", None),
    ("FLASH_ATTN_MLA", None, None),
    ("FLASH_ATTN_MLA_SPARSE", "0.25.1", None),
    ("FLASH_ATTN_MLA_SPARSE_FA4", "0.33.0", None),
    ("MINIMAX_M3_SPARSE", "0.24.0", None),
    ("CUTLASS_MSA", "0.27.1", None),
    ("TRITON_MSA", "0.27.1", None),
    ("STEP5_DSA", "0.33.0", None),
    ("NO_ATTENTION", None, None),
    ("FLEX_ATTENTION", None, None),
    ("TREE_ATTN", None, "0.20.2"),
    ("HPC_ATTN", "0.25.1", None),
    ("ROCM_AITER_UNIFIED_ATTN", None, None),
    ("CPU_ATTN", None, None),
    ("CPU_MLA", "0.28.0", None),
    ("AMX_MLA", "0.29.0", None),
    ("TURBOQUANT", "0.20.2", None),
    ("ROCM_OCTAVE", "0.33.0", None),
    ("ULTRAQUANT", "0.32.0", None),
    ("CUSTOM", None, None),
)
"""Name, first and last release (None: all), in the order of the newest release."""


def known(release: Release) -> tuple[str, ...]:
    """The backends that `release` can be asked for."""
    return tuple(name for name, since, until in _NAMES if release.within(since, until))


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
    message = f"Unknown attention backend: '{name}'. Valid options are: {', '.join(accepted)}"
    if nested:
        where = "argument --attention-config/-ac: 1 validation error for AttentionConfig"
        message = f"{where}\nbackend\n  Value error, {message}"
    raise stop(
        Stage.OPTIONS,
        InvalidValue(option=OPTION, value=name, accepted=accepted),
        message,
        exception=PARSER_REFUSES if nested else "ValueError",
    )
