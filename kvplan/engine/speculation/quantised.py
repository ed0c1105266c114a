"""A draft that the launch wants quantised although its own config has no quantisation section.

Sources: `get_draft_quant_config` (model_executor/models/utils.py), the draft classes that call it, and
`get_quant_config` (model_executor/model_loader/weight_utils.py), which in older releases takes the function that
rewrites a draft's config for overrides that cannot be read.
"""

from __future__ import annotations

from kvplan.checkpoint.values import Checkpoint
from kvplan.engine.failures import SpeculativeConfigRefused
from kvplan.engine.models import registered
from kvplan.engine.values import Stage, StartupError
from kvplan.history import checks
from kvplan.releases import ALWAYS, Release, Span

_ASKING: tuple[tuple[str, Span], ...] = (
    ("cohere_eagle", Span(since="0.21.0")),
    ("deepseek_eagle3", Span(since="0.18.1")),
    ("gemma4_mtp", Span(since="0.25.1")),
    ("laguna_dflash", Span(since="0.25.1")),
    ("llama_eagle", ALWAYS),
    ("llama_eagle3", ALWAYS),
    ("mistral_eagle", Span(since="0.21.0")),
    ("models.kimi_k3", Span(since="0.27.1")),
    ("qwen3_dflash", Span(since="0.20.2")),
    ("qwen3_eagle3", Span(since="0.24.0")),
)
"""vLLM's modules of drafts that ask for a quantisation of their own, each with its releases."""


def refusal(asked: str | None, draft: Checkpoint, release: Release) -> StartupError | None:
    """Why a draft cannot be quantised with the method `asked`, None where it can or need not be."""
    if asked is None or draft.quantization is not None or not release.has(checks.QUANTISED_DRAFT_NEEDS_SECTION):
        return None
    entries = (registered.lookup(name, release) for name in draft.architectures)
    modules = {entry.module for entry in entries if entry is not None}
    if not any(module in modules and release.within(span) for module, span in _ASKING):
        return None
    return StartupError(
        Stage.LAYERS,
        "ValueError",
        "hf_overrides must be a dict for get_quant_config to get the quantization config from it.",
        SpeculativeConfigRefused(key="quantization", value=asked),
    )
