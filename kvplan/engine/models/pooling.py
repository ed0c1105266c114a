"""How a model attends and pools, as far as it decides whether prompts are cached and prefilled in parts.

Source: `ModelConfig.attn_type`, `is_chunked_prefill_supported` and `is_prefix_caching_supported` (config/model.py), and
the decorators `default_pooling_type` and `attn_type` of the model classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kvplan.engine.models import contracts
from kvplan.history import models as history

if TYPE_CHECKING:
    from kvplan.engine.models.construction import Construction
    from kvplan.engine.models.fields import Fields
    from kvplan.engine.models.registered import Registration
    from kvplan.releases import Release

SEQUENCE_POOLING: dict[str, str] = {
    **dict.fromkeys(
        (
            "BertEmbeddingModel",
            "BertForSequenceClassification",
            "BertSpladeSparseEmbeddingModel",
            "BgeM3EmbeddingModel",
            "ColBERTJinaRobertaModel",
            "ColBERTLfm2Model",
            "ColBERTModel",
            "ColBERTModernBertModel",
            "ColModernVBertForRetrieval",
            "ColPaliModel",
            "ColQwen3Model",
            "ColQwen3_5Model",
            "ColUltraVBertForRetrieval",
            "ErnieEmbeddingModel",
            "ErnieForSequenceClassification",
            "GteNewForSequenceClassification",
            "GteNewModel",
            "Lfm2BidirectionalModel",
            "ModernBertForSequenceClassification",
            "ModernBertModel",
            "NomicBertModel",
            "RobertaEmbeddingModel",
            "RobertaForSequenceClassification",
            "SiglipEmbeddingModel",
            "SnowflakeGteNewModel",
            "TransformersEmbeddingModel",
            "TransformersForSequenceClassification",
            "TransformersMoEEmbeddingModel",
            "TransformersMoEForSequenceClassification",
            "TransformersMultiModalEmbeddingModel",
            "TransformersMultiModalForSequenceClassification",
        ),
        "CLS",
    ),
    "EmbeddingGemma2Model": "MEAN",
    "GritLM": "MEAN",
}
"""How classes pool a sequence where nobody says otherwise; the others take the last token."""

STEP_REWARDS = frozenset({"Qwen2ForProcessRewardModel"})
"""Classes that pool single tokens by STEP; the others pool all."""

BIDIRECTIONAL = frozenset(
    {
        "LlamaBidirectionalForSequenceClassification",
        "LlamaBidirectionalModel",
        "LlamaNemotronVLForSequenceClassification",
        "LlamaNemotronVLModel",
        "VoyageQwen3BidirectionalEmbedModel",
    }
)
"""Architectures whose config hook switches causal attention off."""

READS_CAUSAL = frozenset(
    {
        "apertus",
        "aria",
        "ernie45",
        "fairseq2_llama",
        "gemma3",
        "glm",
        "gritlm",
        "iquest_loopcoder",
        "jina",
        "llama",
        "mimo",
        "mistral",
        "openpangu",
        "ouro",
        "phi3",
        "phi4mm",
        "qwen2",
        "qwen2_rm",
        "qwen3",
        "seed_oss",
        "telechat2",
        "teleflm",
        "voyage",
    }
)
"""Modules whose layers keep nothing where the config says `is_causal: false`: those that look, and those built of the
decoder layers of one that does."""
READS_CAUSAL_WITHOUT_MLA = frozenset({"deepseek_v2"})
"""Modules that do so once MLA is out of the way."""

WHOLE_SEQUENCE = frozenset({"CLS", "MEAN"})
"""Sequence poolings that need all hidden states of a prompt at once."""


def is_causal(architecture: str, config: Fields, text: Fields, release: Release) -> bool:
    """Whether tokens see only what stands before them, by the config and the architecture's hook."""
    declared = contracts.declared_causal(architecture, config, text, release)
    if declared is not None:
        return declared
    if architecture in BIDIRECTIONAL:
        return False
    if architecture == "Gemma3TextModel":
        return not config.get("use_bidirectional_attention")
    encoder = architecture == "JinaEmbeddingsV5Model" and config.get("is_decoder") is False
    if encoder and release.has(history.JINA_V5_MAY_BE_AN_ENCODER):
        return False
    return config.get("is_causal") is not False


def keeps_nothing(made: Construction) -> bool:
    """Whether the layers of `made` attend in both directions and so have no cache."""
    module = made.entry.module
    reads = module in READS_CAUSAL or (
        module in READS_CAUSAL_WITHOUT_MLA and not made.use_mla and made.release.has(history.MLA_NEEDS_CAUSAL)
    )
    return reads and not is_causal(made.architecture, made.config, made.text, made.release)


def attends_both_ways(made: Construction) -> bool:
    """Whether the attention of a hybrid keeps nothing, as its class reads `is_causal` in the text config."""
    if not made.release.has(history.GATED_ATTENTION_READS_CAUSAL):
        return False
    declared = contracts.declared_causal(made.architecture, made.config, made.text, made.release)
    return made.text.get("is_causal") is False if declared is None else not declared


def attention_type(entry: Registration, runner_type: str, config: Fields, *, causal: bool, hybrid: bool) -> str:
    """`decoder`, `encoder_only`, `encoder_decoder`, `hybrid` or `attention_free`, as vLLM sorts the model."""
    if runner_type == "pooling":
        cls = SEQUENCE_POOLING.get(entry.class_name) == "CLS"
        if cls or not causal or entry.encoder_only:
            return "encoder_only"
        return "decoder"  # of a class without attention too, which vLLM asks only where it generates
    if hybrid:
        return "hybrid"
    if entry.attention_free:
        return "attention_free"
    return "encoder_decoder" if config.get("is_encoder_decoder") else "decoder"


def prefills_in_parts(entry: Registration, runner_type: str, attention: str, pooler: Mapping[str, Any]) -> bool:
    """Whether chunked prefill is on by default."""
    if runner_type == "pooling" and attention in {"encoder_only", "decoder"}:
        return attention == "decoder" and not _pools_whole(entry, pooler)
    return attention != "encoder_decoder"


def shares_prefixes(entry: Registration, runner_type: str, attention: str, pooler: Mapping[str, Any]) -> bool:
    """Whether prefix caching is on by default, as far as attention and pooling decide it."""
    if runner_type == "pooling":
        return attention == "decoder" and not _pools_whole(entry, pooler)
    return attention not in {"attention_free", "encoder_decoder"}


def _pools_whole(entry: Registration, pooler: Mapping[str, Any]) -> bool:
    sequence = pooler.get("seq_pooling_type") or pooler.get("pooling_type")
    token = pooler.get("tok_pooling_type")
    if sequence is None:
        sequence = SEQUENCE_POOLING.get(entry.class_name, "LAST")
    steps = entry.class_name in STEP_REWARDS if token is None else str(token).upper() == "STEP"
    return str(sequence).upper() in WHOLE_SEQUENCE or steps
