"""The draft's config: vLLM turns the config of a model with MTP layers into that of its draft.

Source: `SpeculativeConfig.hf_config_override` (config/speculative.py). It is applied to every draft model's config,
so that a checkpoint of a target architecture means its MTP layers. Rows are tried in vLLM's order; the first that
fits is taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from kvplan.checkpoint.values import Checkpoint
from kvplan.engine.models import families, registered
from kvplan.engine.models.fields import Fields
from kvplan.history import speculation as history
from kvplan.releases import Behaviour, Release, Span

NEXTN = "num_nextn_predict_layers"


@dataclass(frozen=True, slots=True)
class Draft:
    """A draft's config after the rewriting."""

    checkpoint: Checkpoint
    n_predict: int | None = None
    """Tokens that the MTP modules predict in one pass, where the config says so."""


@dataclass(frozen=True, slots=True)
class Rewriting(Span):
    """One architecture's rewriting."""

    becomes: str
    """The draft's model type."""
    architecture: str
    """The draft's architecture."""
    types: frozenset[str] = frozenset()
    """Model types that it applies to."""
    architectures: frozenset[str] = frozenset()
    """Architectures that it applies to."""
    count: str = NEXTN
    """The field with the number of MTP layers."""
    default: int | None = None
    """What stands for a missing `count`."""
    promotes_text: bool = False
    """Whether the draft's config is the language section."""
    if_count: bool = False
    """Whether it applies only where `count` is above 0."""
    fixed: Mapping[str, Any] | None = None
    """Fields that the rewriting sets."""
    reads_text: bool = False
    """Whether the number of layers is looked for in the language section too."""
    reads_since: Behaviour | None = None
    """Where it is looked for there; None: in all releases."""
    renames_only: bool = False
    """Whether the draft keeps the target's model type."""


def _types(becomes: str, architecture: str, *types: str, **more: Any) -> Rewriting:
    return Rewriting(becomes, architecture, types=frozenset({*types, becomes}), **more)


def _named(becomes: str, architecture: str, *architectures: str, **more: Any) -> Rewriting:
    return Rewriting(becomes, architecture, architectures=frozenset(architectures), **more)


_QWEN35 = ("qwen3_5", "qwen3_5_text")
_QWEN35_MOE = ("qwen3_5_moe", "qwen3_5_moe_text")
_SPARSE = ("deepseek_v32", "glm_moe_dsa")

ROWS: tuple[Rewriting, ...] = (
    Rewriting(
        "", "EagleMistralLarge3ForCausalLM", architectures=frozenset({"MistralLarge3ForCausalLM"}), renames_only=True
    ),
    Rewriting(
        "inkling_mtp",
        "InklingMTPModel",
        types=frozenset({"inkling_mm_model", "inkling_model"}),
        promotes_text=True,
        since="0.26.0",
    ),
    _types("dots3_note_mtp", "Dots3NoteMTPModel", "dots3_note", default=1, since="0.28.0"),
    Rewriting("deepseek_mtp", "DeepseekV32MTPModel", types=frozenset(_SPARSE), since="0.29.0"),
    _types("deepseek_mtp", "DeepSeekMTPModel", "deepseek_v3", *_SPARSE),
    Rewriting("deepseek_mtp", "DeepSeekV4MTPModel", types=frozenset({"deepseek_v4"}), since="0.20.2"),
    Rewriting("deepseek_mtp", "", types=frozenset({"deepseek_v41"}), reads_text=True, since="0.30.0"),
    _types("pangu_ultra_moe_mtp", "OpenPanguMTPModel", "pangu_ultra_moe"),
    _types("kimi_k3_mtp", "KimiK3MTPModel", "kimi_k3", reads_text=True, since="0.27.1"),
    _named("mimo_mtp", "MiMoMTPModel", "MiMoForCausalLM"),
    _named("mimo_v2_mtp", "MiMoV2OmniMTPModel", "MiMoV2OmniForCausalLM", fixed={NEXTN: 1}, since="0.21.0"),
    _named(
        "mimo_v2_mtp",
        "MiMoV2MTPModel",
        "MiMoV2ForCausalLM",
        "MiMoV2FlashForCausalLM",
        fixed={NEXTN: 1},
        since="0.21.0",
    ),
    _named("glm4_moe_mtp", "Glm4MoeMTPModel", "Glm4MoeForCausalLM"),
    _named("glm4_moe_lite_mtp", "Glm4MoeLiteMTPModel", "Glm4MoeLiteForCausalLM"),
    _named("glm_ocr_mtp", "GlmOcrMTPModel", "GlmOcrForConditionalGeneration"),
    _types("ernie_mtp", "ErnieMTPModel", "ernie4_5_moe"),
    _named(
        "nemotron_h_mtp",
        "NemotronHMTPModel",
        "NemotronH_Super_Omni_Reasoning_V3",
        promotes_text=True,
        if_count=True,
        since="0.20.2",
    ),
    _named(
        "nemotron_h_mtp",
        "NemotronHMTPModel",
        "NemotronH_Omni_Reasoning_V3",
        promotes_text=True,
        if_count=True,
        since="0.29.0",
    ),
    Rewriting(
        "nemotron_h_mtp", "NemotronHMTPModel", types=frozenset({"nemotron_h"}), if_count=True, default=1, since="0.17.1"
    ),
    Rewriting(
        "nemotron_h_mtp",
        "NemotronHMTPModel",
        types=frozenset({"nemotron_h_puzzle"}),
        if_count=True,
        default=1,
        since="0.19.1",
    ),
    _types("qwen3_next_mtp", "Qwen3NextMTP", "qwen3_next"),
    _types(
        "qwen4_exp_mtp",
        "Qwen4ExpMTP",
        "qwen4_exp",
        "qwen4_exp_text",
        count="mtp_num_hidden_layers",
        reads_text=True,
        since="0.29.0",
    ),
    _named("bailing_hybrid_v3_mtp", "BailingMoeV3MTPModel", "BailingMoeV3ForCausalLM", since="0.28.0"),
    _named(
        "bailing_hybrid_v3_mtp",
        "BailingMoeV3MTPModel",
        "BailingMoeV3VLForConditionalGeneration",
        promotes_text=True,
        since="0.28.0",
    ),
    Rewriting(
        "bailing_hybrid_mtp",
        "BailingMoeV25MTPModel",
        types=frozenset({"bailing_hybrid", "bailing_hybrid_mtp"}),
        architectures=frozenset({"BailingMoeV2_5ForCausalLM"}),
        since="0.25.1",
    ),
    _types("exaone_moe_mtp", "ExaoneMoeMTP", "exaone_moe"),
    _types("exaone4_5_mtp", "Exaone4_5_MTP", "exaone4_5", "exaone4_5_text", since="0.20.2"),
    Rewriting(
        "qwen3_5_mtp",
        "Qwen3_5MoeMTP",
        types=frozenset({"qwen3_5_moe"}),
        count="mtp_num_hidden_layers",
        since="0.17.1",
        until="0.27.1",
    ),
    Rewriting(
        "qwen3_5_mtp",
        "Qwen3_5MTP",
        types=frozenset({"qwen3_5"}),
        count="mtp_num_hidden_layers",
        since="0.17.1",
        until="0.27.1",
    ),
    Rewriting(
        "qwen3_5_mtp",
        "Qwen3_5MoeMTP",
        types=frozenset(_QWEN35_MOE),
        count="mtp_num_hidden_layers",
        reads_text=True,
        reads_since=history.N_PREDICT_FROM_TEXT_CONFIG,
        since="0.28.0",
    ),
    Rewriting(
        "qwen3_5_mtp",
        "Qwen3_5MTP",
        types=frozenset(_QWEN35),
        count="mtp_num_hidden_layers",
        reads_text=True,
        reads_since=history.N_PREDICT_FROM_TEXT_CONFIG,
        since="0.28.0",
    ),
    Rewriting(
        "qwen3_5_mtp",
        "Qwen3_5MTP",
        types=frozenset({"intern_s2_preview"}),
        count="mtp_num_hidden_layers",
        since="0.22.1",
    ),
    Rewriting(
        "qwen3_5_mtp",
        "InternS2MobiusMTP",
        types=frozenset({"interns2_mobius"}),
        count="mtp_num_hidden_layers",
        since="0.28.0",
    ),
    _types("longcat_flash_mtp", "LongCatFlashMTPModel", "longcat_flash", default=1),
    Rewriting(
        "longcat_flash_mtp",
        "LongCatFlashMTPModel",
        types=frozenset({"longcat_flash_ngram"}),
        default=1,
        since="0.26.0",
        until="0.31.0",
    ),
    Rewriting(
        "step3p5_mtp",
        "Step3p5MTP",
        types=frozenset({"step3p5", "step3p7"}),
        architectures=frozenset({"Step3p5ForCausalLM", "Step3p7ForConditionalGeneration"}),
        default=1,
        promotes_text=True,
        since="0.23.0",
    ),
    Rewriting("step3p5_mtp", "Step3p5MTP", types=frozenset({"step3p5", "step3p5_mtp"}), default=1),
    Rewriting(
        "step5_mtp",
        "Step5MTP",
        types=frozenset({"step5", "step5_vl"}),
        architectures=frozenset({"Step5ForCausalLM", "Step5ForConditionalGeneration"}),
        default=1,
        promotes_text=True,
        since="0.33.0",
    ),
    _types("hy_v3_mtp", "HYV3MTPModel", "hy_v3", since="0.20.2"),
    _types("hy_v4_mtp", "HYV4MTPModel", "hy_v4", since="0.29.0"),
    Rewriting(
        "gemma4_mtp",
        "Gemma4MTPModel",
        types=frozenset({"gemma4_assistant"}),
        count="",
        default=1,
        since="0.21.0",
    ),
    Rewriting(
        "gemma4_mtp",
        "Gemma4MTPModel",
        types=frozenset({"gemma4_unified_assistant"}),
        count="",
        default=1,
        since="0.23.0",
    ),
    Rewriting(
        "minimax_m3_mtp",
        "MiniMaxM3MTP",
        types=frozenset({"minimax_m3_vl"}),
        architectures=frozenset({"MiniMaxM3SparseForConditionalGeneration"}),
        count="num_mtp_modules",
        default=1,
        promotes_text=True,
        since="0.24.0",
    ),
    _types("minimax_m3_mtp", "MiniMaxM3MTP", count="num_mtp_modules", default=1, since="0.24.0"),
    _types("glm5_next_mtp", "Glm5NextMTPModel", "glm5_next", reads_text=True, since="0.30.0"),
)

MTP_TYPES = frozenset(row.becomes for row in ROWS if row.becomes) | {"mtp"}
"""Model types whose draft is run by the method `mtp`."""


def rewrite(checkpoint: Checkpoint, release: Release) -> Draft:
    """The draft's config that vLLM makes of `checkpoint`'s; an ordinary model's stays as it is.

    Raises Refused where the family's own rewriting refuses the config.
    """
    architecture = checkpoint.architectures[0] if checkpoint.architectures else ""
    for row in ROWS:
        if not release.within(row):
            continue
        if architecture not in row.architectures and checkpoint.model_type not in row.types:
            continue
        count = _count(checkpoint, row, release)
        if row.if_count and not (checkpoint.text_config.get(row.count) or 0) > 0:
            continue
        if row.renames_only:
            return Draft(_with(checkpoint, {}, (row.architecture,)))
        fixed = {"model_type": row.becomes, **(row.fixed or {})}
        fixed |= _of_family(row.architecture, checkpoint, release)
        names = (row.architecture,) if row.architecture else checkpoint.architectures
        rewritten = _with(checkpoint, fixed, names, promotes_text=row.promotes_text, model_type=row.becomes)
        return Draft(rewritten, fixed.get(row.count, count))
    return Draft(checkpoint)


def _of_family(architecture: str, checkpoint: Checkpoint, release: Release) -> Mapping[str, object]:
    """The fields that the draft's family sets besides, from its target's config; its `count` may be among them."""
    entry = registered.lookup(architecture, release)
    found = None if entry is None else families.draft_of(entry)
    fields = None if found is None else found[1].fields
    return {} if fields is None else fields(Fields(checkpoint.config, checkpoint.file))


def _count(checkpoint: Checkpoint, row: Rewriting, release: Release) -> int | None:
    """`n_predict`: read from the top-level config, or where the row promotes it the language section."""
    config = checkpoint.text_config if row.promotes_text else checkpoint.config
    value = config.get(row.count)
    if value is None and row.reads_text and (row.reads_since is None or release.has(row.reads_since)):
        value = checkpoint.text_config.get(row.count)
    return row.default if not isinstance(value, int) else value


def _with(
    checkpoint: Checkpoint,
    fixed: Mapping[str, Any],
    architectures: tuple[str, ...],
    *,
    promotes_text: bool = False,
    model_type: str | None = None,
) -> Checkpoint:
    config = checkpoint.text_config if promotes_text else checkpoint.config
    whole = {**config, **fixed}
    nested = checkpoint.text_config is not checkpoint.config and not promotes_text
    return replace(
        checkpoint,
        config=whole,
        text_config=checkpoint.text_config if nested else whole,
        architectures=architectures,
        model_type=model_type or checkpoint.model_type,
    )
