"""Which targets hand out the hidden states that EAGLE 3, DFlash and DSpark drafts read.

Source: classes that implement `SupportsEagle3` (model_executor/models/interfaces.py), their subclasses included. The
runner refuses others once target and draft are loaded.
"""

from __future__ import annotations

from collections.abc import Mapping

from kvplan.releases import Release, Span

METHODS = frozenset({"eagle3", "dflash", "dspark", "extract_hidden_states"})
"""Methods that read hidden states of several of the target's layers."""

_SINCE: Mapping[str, str] = {
    "0.16.0": (
        "AfmoeForCausalLM AquilaForCausalLM AquilaModel CwmForCausalLM Emu3ForConditionalGeneration "
        "Ernie4_5ForCausalLM Fairseq2LlamaForCausalLM GlmForCausalLM GptOssForCausalLM GritLM "
        "HunYuanDenseV1ForCausalLM HunYuanMoEV1ForCausalLM HunYuanVLForConditionalGeneration "
        "IQuestCoderForCausalLM InternLM3ForCausalLM InternLMForCausalLM InternS1ProForConditionalGeneration "
        "LLaMAForCausalLM LightOnOCRForConditionalGeneration Llama4ForCausalLM Llama4ForConditionalGeneration "
        "LlamaBidirectionalForSequenceClassification LlamaBidirectionalModel LlamaForCausalLM LlamaModel "
        "LlavaForConditionalGeneration MantisForConditionalGeneration MiMoForCausalLM MiniCPM3ForCausalLM "
        "MiniCPMForCausalLM Mistral3ForConditionalGeneration MistralForCausalLM MistralModel "
        "OpenCUAForConditionalGeneration Phi3ForCausalLM Qwen2ForCausalLM Qwen2Model "
        "Qwen2_5_VLForConditionalGeneration Qwen3ForCausalLM Qwen3MoeForCausalLM Qwen3VLForConditionalGeneration "
        "Qwen3VLMoeForConditionalGeneration SmolLM3ForCausalLM TeleChat2ForCausalLM TeleChatForCausalLM "
        "TeleFLMForCausalLM TransformersEmbeddingModel TransformersForCausalLM "
        "TransformersForSequenceClassification TransformersMoEEmbeddingModel TransformersMoEForCausalLM "
        "TransformersMoEForSequenceClassification TransformersMultiModalEmbeddingModel "
        "TransformersMultiModalForCausalLM TransformersMultiModalForSequenceClassification "
        "TransformersMultiModalMoEForCausalLM XverseForCausalLM "
    ),
    "0.17.1": (
        "ColQwen3 OpsColQwen3Model Qwen3VLNemotronEmbedModel Qwen3_5ForConditionalGeneration "
        "Qwen3_5MoeForConditionalGeneration "
    ),
    "0.18.1": (
        "ApertusForCausalLM ArceeForCausalLM DeepseekForCausalLM DeepseekV2ForCausalLM DeepseekV32ForCausalLM "
        "DeepseekV3ForCausalLM GlmMoeDsaForCausalLM KimiK25ForConditionalGeneration MistralLarge3ForCausalLM "
        "Step1ForCausalLM "
    ),
    "0.19.1": ("ColQwen3_5 Gemma4ForCausalLM Gemma4ForConditionalGeneration PixtralForConditionalGeneration "),
    "0.20.2": (
        "Exaone4_5_ForConditionalGeneration JinaEmbeddingsV5Model MiniMaxM2ForCausalLM Ministral3ForCausalLM "
        "TeleChat3ForCausalLM "
    ),
    "0.21.0": ("LagunaForCausalLM "),
    "0.22.1": (
        "InternS2PreviewForConditionalGeneration MellumForCausalLM NemotronHForCausalLM NemotronHPuzzleForCausalLM "
    ),
    "0.23.0": ("Cosmos3ForConditionalGeneration Gemma4UnifiedForConditionalGeneration "),
    "0.24.0": ("MiniMaxM3SparseForCausalLM MiniMaxM3SparseForConditionalGeneration Qwen3NextForCausalLM "),
    "0.25.1": (
        "DeepseekV4ForCausalLM GPTBigCodeForCausalLM MiMoV2FlashForCausalLM MiMoV2ForCausalLM Starcoder2ForCausalLM "
    ),
    "0.26.0": ("Olmo2ForCausalLM OlmoForCausalLM "),
    "0.27.1": (
        "KimiK3ForConditionalGeneration Qwen3_5ForCausalLM Qwen3_5MoeForCausalLM VaultGemmaForCausalLM "
        "VibeVoiceAsrForConditionalGeneration "
    ),
    "0.28.0": (
        "InternS2MobiusForConditionalGeneration KimiLinearForCausalLM MuseGlimmerForCausalLM "
        "MuseGlimmerForConditionalGeneration "
    ),
    "0.29.0": (
        "DeepseekV3BidirectionalModel FlexOlmoForCausalLM Olmo3ForCausalLM Plamo3ForCausalLM "
        "Qwen3OmniMoeForConditionalGeneration Qwen4ExpForConditionalGeneration "
    ),
    "0.30.0": (
        "CohereCompassForConditionalGeneration DeepseekV41ForCausalLM DeepseekV4ForConditionalGeneration "
        "K2HorizonForCausalLM NanbeigeForCausalLM SarvamMLAForCausalLM "
    ),
    "0.31.0": (
        "Cohere2MoeForCausalLM MiMoV2OmniForCausalLM NemotronH_Nano_Omni_Reasoning_V3 NemotronH_Nano_VL_V2 "
        "NemotronH_Omni_Reasoning_V3 NemotronH_Super_Omni_Reasoning_V3 "
    ),
    "0.32.0": (
        "ClefOmniForJointSchema GPTNeoXForCausalLM Glm5NextForCausalLM Glm5NextForConditionalGeneration "
        "GraniteForCausalLM GraniteSWAForCausalLM Jais2ForCausalLM MiniCPMV4_6ForConditionalGeneration "
        "MiniCPMV4_7ForConditionalGeneration PhiForCausalLM Qwen3ASRForConditionalGeneration "
        "Qwen3ASRForcedAlignerForTokenClassification Qwen3ASRRealtimeGeneration SeedOssForCausalLM "
    ),
    "0.33.0": (
        "Alpamayo2Super BeamForCausalLM ClefFlashForJointSchema D3ForSequenceClassification GraniteMoeForCausalLM "
        "GraniteMoeSWAForCausalLM GraniteMoeSharedForCausalLM Kolibri1ForCausalLM "
        "MiniCPMOcrForConditionalGeneration MuseSparkForConditionalGeneration RadioMBartPrefixForCausalLM "
        "TransformersForMTP TransformersMoEForMTP "
    ),
}
"""Architectures by the first release in which their class does."""

_SPANS = {name: Span(since=since) for since, names in _SINCE.items() for name in names.split()}


def first_release(architecture: str) -> str | None:
    """The first known release whose class of that name hands the states out, None where none does."""
    span = _SPANS.get(architecture)
    return None if span is None else span.since


def hands_out(architecture: str, release: Release) -> bool:
    """Whether a target of that architecture can have such a draft."""
    span = _SPANS.get(architecture)
    return span is not None and release.within(span)
