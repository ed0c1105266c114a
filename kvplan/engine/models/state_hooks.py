"""Config hooks of model classes that choose the dtype of the recurrent state (model_executor/models/config.py)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kvplan.history import state as history

if TYPE_CHECKING:
    from kvplan.checkpoint.values import Checkpoint
    from kvplan.releases import Behaviour, Release

_NEMOTRON_H = frozenset({"NemotronHForCausalLM", "NemotronHPuzzleForCausalLM"})
_NEMOTRON_VL = frozenset({"NemotronH_Nano_VL_V2"})
_QWEN3_5: dict[str, tuple[str | None, str | None]] = {
    "Qwen3_5ForConditionalGeneration": ("0.17.1", None),
    "Qwen3_5MoeForConditionalGeneration": ("0.17.1", None),
    "ColQwen3_5": ("0.19.1", None),
    "Qwen3_5ForCausalLM": ("0.27.1", None),
    "Qwen3_5MoeForCausalLM": ("0.27.1", None),
    "D3ForSequenceClassification": ("0.33.0", None),
}
"""Architectures whose config says `mamba_ssm_dtype`, with the releases that read it."""


@dataclass(frozen=True, slots=True)
class HookedDtype:
    """The dtype a hook chose for `--mamba-ssm-cache-dtype auto`, and why."""

    dtype: str
    cause: str
    behaviour: Behaviour | None = None


def recurrent_dtype(checkpoint: Checkpoint, architecture: str, release: Release) -> HookedDtype | None:
    """What the hook of `architecture` makes of `auto`; None where there is none or it leaves it alone."""
    text = checkpoint.text_config
    vl = architecture in _NEMOTRON_VL and release.has(history.NEMOTRON_VL_STATE_DTYPE_FROM_CONFIG)
    if architecture in _NEMOTRON_H or vl:
        declared = _string(text.get("mamba_ssm_cache_dtype"))
        if declared is not None:
            return HookedDtype(declared, "Nemotron-H reads mamba_ssm_cache_dtype in its config")
        default = "float32" if release.has(history.NEMOTRON_STATE_FLOAT32) else "float16"
        return HookedDtype(default, "Nemotron-H's default", history.NEMOTRON_STATE_FLOAT32)
    span = _QWEN3_5.get(architecture)
    if span is not None and release.within(*span):
        declared = _string(text.get("mamba_ssm_dtype"))
        if declared is not None:
            return HookedDtype(declared, "Qwen3.5 reads mamba_ssm_dtype in its config")
    return None


def _string(value: Any) -> str | None:
    return value.removeprefix("torch.") if isinstance(value, str) and value else None
