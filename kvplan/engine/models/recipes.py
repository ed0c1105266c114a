"""How each of vLLM's model modules names its attention layers and which rule builds them.

A module that has no row follows the general rule: a decoder whose layers are `model.layers.N.self_attn.attn`, of the
model-level heads, that pass no window of their own; a multimodal module without a row wraps, under
`language_model`, the class that its text config names. Rows are for whatever differs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kvplan.engine.models.registered import Entry
    from kvplan.releases import Release

DECODER = "model.layers.{i}.self_attn.attn"


class Windows(StrEnum):
    """Where the window that a layer passes comes from."""

    NONE = "none"
    """Layers pass none: the model-level window, if any, is theirs."""
    LAYER_TYPES = "layer_types"
    """`sliding_attention` in `layer_types` takes the config's window."""
    INTERLEAVED = "interleaved"
    """`interleaved_sliding_window`, a number or a list that repeats."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """How the layers of one vLLM module are built."""

    family: str = "general"
    """Which of `families.BUILDERS` does it."""
    layout: str = DECODER
    """Module prefix of decoder layer `{i}`'s attention. A leading dot is real: those classes join their own, empty,
    prefix and the rest with a dot."""
    windows: Windows = Windows.NONE
    wraps: str | None = None
    """Multimodal wrappers: where the language model hangs (empty: at the top)."""
    architecture: str | None = None
    """Multimodal wrappers: the class they build, whatever the text config names."""
    unnamed: bool = False
    """Multimodal wrappers that build a class of their own choice from a text config for which they name none."""
    clears_window: bool = False
    """Whether the model code clears the model-level window, so that no layer falls back to it."""
    since: str | None = None
    until: str | None = None


def _names(layout: str, windows: Windows = Windows.NONE) -> tuple[Recipe, ...]:
    return (Recipe(layout=layout, windows=windows),)


def _family(family: str, layout: str = DECODER, windows: Windows = Windows.LAYER_TYPES) -> tuple[Recipe, ...]:
    return (Recipe(family=family, layout=layout, windows=windows),)


def _clears_window(family: str) -> tuple[Recipe, ...]:
    return (Recipe(family=family, windows=Windows.LAYER_TYPES, clears_window=True),)


def _wraps(architecture: str | None = None, prefix: str = "language_model") -> tuple[Recipe, ...]:
    return (Recipe(family="wrapper", wraps=prefix, architecture=architecture),)


def _named_by_and_by(architecture: str) -> tuple[Recipe, ...]:
    """Qwen3-VL: the class is named for the text config only since 0.30.0, and did not matter before 0.17.1."""
    wrapper = Recipe(family="wrapper", wraps="language_model", architecture=architecture)
    return (
        replace(wrapper, until="0.16.0"),
        replace(wrapper, unnamed=True, since="0.17.1", until="0.29.0"),
        replace(wrapper, since="0.30.0"),
    )


WRAPPER = _wraps()[0]
GENERAL = Recipe()
FOLLOWS_LAYER_TYPES = (Recipe(windows=Windows.LAYER_TYPES),)

RECIPES: dict[str, tuple[Recipe, ...]] = {
    # Decoders that follow layer_types under the usual names (most of them are Llama's own classes).
    **dict.fromkeys(
        (
            "afmoe",
            "apertus",
            "chameleon",
            "ernie45",
            "exaone4",
            "fairseq2_llama",
            "gemma2",
            "gemma3",
            "glm",
            "gritlm",
            "jina",
            "llama",
            "mellum",
            "mistral",
            "muse_glimmer",
            "olmo2",
            "olmo3",
            "phi3",
            "phi4mm",
            "telechat2",
            "teleflm",
        ),
        FOLLOWS_LAYER_TYPES,
    ),
    "arcee": (
        Recipe(layout=".model.layers.{i}.self_attn.attn", windows=Windows.LAYER_TYPES, until="0.21.0"),
        Recipe(windows=Windows.LAYER_TYPES, since="0.22.1"),
    ),
    # Decoders under other names.
    "bailing_moe": _names("model.layers.{i}.attention.attn"),
    "baichuan": _family("baichuan", ".layers.{i}.self_attn.attn", Windows.NONE),
    "bloom": _names("transformer.h.{i}.self_attention.attn"),
    "clip": _names("text_model.encoder.layers.{i}.self_attn.attn"),
    "chatglm": _names("transformer.encoder.layers.{i}.self_attention.attn"),
    "dbrx": _names("transformer.blocks.{i}.norm_attn_norm.attn.attn"),
    "exaone": _names("model.h.{i}.attn.attention.attn"),
    "falcon": _family("falcon", "transformer.h.{i}.self_attention.attn", Windows.NONE),
    "glm4v": _names("transformer.encoder.layers.{i}.self_attention.attn"),
    "gpt2": _names("transformer.h.{i}.attn.attn"),
    "gpt_bigcode": _family("gpt_bigcode", "transformer.h.{i}.attn.attn"),
    "gpt_j": _names("transformer.h.{i}.attn.attn"),
    "gpt_neox": _names("gpt_neox.layers.{i}.attention.attn"),
    "grok1": _names("model.layers.{i}.attn.attn"),
    "idefics3": _names("model.text_model.layers.{i}.self_attn.attn", Windows.LAYER_TYPES),
    "internlm2": _names("model.layers.{i}.attention.attn"),
    "internlm2_ve": _names("model.layers.{i}.attention.attn"),
    "jais": _names("transformer.h.{i}.attn.attn"),
    "mpt": _names("transformer.blocks.{i}.attn.attn"),
    "opt": _names("model.decoder.layers.{i}.self_attn.attn"),
    "qwen": _names("transformer.h.{i}.attn.attn"),
    "qwen_vl": _names("transformer.h.{i}.attn.attn"),
    "smolvlm": _names("model.text_model.layers.{i}.self_attn.attn", Windows.LAYER_TYPES),
    "step3_text": _family("step3_text", ".layers.{i}.self_attn.attn", Windows.NONE),
    "molmo": _names(DECODER),
    "molmo2": _names(DECODER),
    "interns1_pro": _names("language_model." + DECODER),
    "aria": _names("language_model." + DECODER, Windows.LAYER_TYPES),
    "cohere_compass": _names("language_model." + DECODER, Windows.LAYER_TYPES),
    "ernie45_vl": _names("language_model." + DECODER),
    # Decoders with a rule of their own.
    "AXK1": _family("latent"),
    "cohere2_moe": _family("cohere"),
    "cosmos3_edge": _family("cosmos3_edge", "language_model.model.layers.{i}.mixer.attn", Windows.NONE),
    "cohere_asr": _family("cohere_asr"),
    "commandr": _family("cohere"),
    "deepseek_v2": _family("latent"),
    "deepseek_v4": _family("deepseek_v4", "model.layers.{i}.attn", Windows.NONE),
    "diffusion_gemma": _family("gemma4"),
    "exaone_moe": _family("exaone_moe"),
    "fireredasr2": _names("model.decoder.model.layers.{i}.self_attn.attn"),
    "funasr": _names("model.decoder.layers.{i}.self_attn.attn"),
    "fireredlid": _family("fireredlid"),
    "gemma3:Gemma3Model": _names(".layers.{i}.self_attn.attn", Windows.LAYER_TYPES),
    "gemma3n": _family("gemma3n"),
    "gemma4": _family("gemma4"),
    "glm4_moe_lite": _family("latent"),
    "gpt_oss": _family("gpt_oss", "model.layers.{i}.attn.attn"),
    "granite": _family("granite"),
    "granitemoe": _family("granite"),
    "granitemoehybrid": _family("granite_hybrid"),
    "granitemoeshared": _family("granite"),
    "hrm_text": _family("hrm_text"),
    "iquest_loopcoder": _family("loopcoder"),
    "jais2": (Recipe(windows=Windows.INTERLEAVED),),
    "laguna": _clears_window("laguna"),
    "llama4": _family("llama4"),
    "longcat_flash": _family("longcat"),
    "longcat_flash_ngram": _family("longcat"),
    "mimo_v2": _clears_window("mimo_v2"),
    "mimo_v2_flash": _clears_window("mimo_v2"),
    "minicpm3": _family("expanded"),
    "mistral_large_3": _family("latent"),
    "dory": _family("dory", "backbone.layers.{i}.mixer.attn"),
    "domyn_edge": _family("domyn_edge", "model.layers.{i}.attention.attn"),
    "models.beam": _clears_window("general"),
    "models.flint": _family("flint"),
    "models.deepseek_v32": _family("latent"),
    "models.deepseek_v4": _family("deepseek_v4", "model.layers.{i}.attn", Windows.NONE),
    "models.deepseek_v41": _family("deepseek_v41", "language_model.model.layers.{i}.attn", Windows.NONE),
    "models.glm5next": _family("glm5_next"),
    "models.glm5next:Glm5NextForConditionalGeneration": _wraps("Glm5NextForCausalLM"),
    "models.qwen4_exp": _family("qwen4_exp"),
    "models.qwen4_exp:Qwen4ExpForConditionalGeneration": _wraps("Qwen4ExpForCausalLM"),
    "models.dots3_note": _family("dots3_note", "language_model." + DECODER, Windows.NONE),
    "models.hy_v4": _family("hy_v4"),
    "models.inkling": _family("inkling", "model.layers.{i}.attn", Windows.NONE),
    "models.minimax_m3": _family("minimax_m3"),
    "models.minimax_m3:MiniMaxM3SparseForConditionalGeneration": _wraps("MiniMaxM3SparseForCausalLM"),
    "models.step5": (Recipe(family="step5", windows=Windows.LAYER_TYPES, clears_window=True),),
    "models.step5:Step5ForConditionalGeneration": _wraps(),
    "nemotron_nas": _family("nemotron_nas"),
    "moondream3": _family("moondream3", "text.blocks.{i}.attn.attn"),
    "nemotron_parse": _family("nemotron_parse"),
    "nemotron_parse3_5": _family("nemotron_parse_prefix"),
    "openpangu": _family("openpangu"),
    "qwen2": _family("qwen", windows=Windows.NONE),
    "qwen3": _family("qwen", windows=Windows.NONE),
    "ouro": _family("ouro"),
    "plamo3": _family("plamo3", "model.layers.layers.{i}.mixer.attn"),
    "rnj1": _family("rnj1", windows=Windows.NONE),
    "sarvam:SarvamMLAForCausalLM": _family("latent_always"),
    "sarvam:SarvamMoEForCausalLM": _names("model.layers.{i}.attention.attn"),
    "step1": _family("step1", windows=Windows.NONE),
    "step3p5": _clears_window("step3p5"),
    "transformers": _family("transformers", "{i}.attn"),
    # Decoders with state layers.
    "alice_ai": _family("alice_ai"),
    "colbert:ColBERTLfm2Model": _family("lfm2", ".layers.{i}.self_attn.attn"),
    "d3": _family("delta", "language_model." + DECODER),
    "bailing_moe_linear": _family("bailing_v2_5"),
    "bailing_moe_v3": _family("bailing_v3"),
    "bailing_moe_v3_vl": _wraps("BailingMoeV3ForCausalLM"),
    "bamba": _family("bamba", "model.layers.{i}.attn"),
    "falcon_h1": _family("falcon_h1", "model.layers.{i}.attn"),
    "jamba": _family("jamba", "model.layers.{i}.attn"),
    "kimi_linear": _family("kimi"),
    "lfm2": _family("lfm2"),
    "lfm2_moe": _family("lfm2"),
    "lfm2_vl": _wraps(prefix="language"),
    "mamba": _family("mamba"),
    "mamba2": _family("mamba2"),
    **dict.fromkeys(
        ("clef_flash", "interns2_mobius", "interns2_preview", "minicpm_ocr", "minicpmv4_6", "minicpmv4_7"),
        _family("delta", "language_model." + DECODER),
    ),
    "minimax_text_01": _family("minimax_text", "model.layers.{i}.attn"),
    "models.kimi_k3": _family("kimi"),
    "models.kimi_k3:KimiK3ForConditionalGeneration": _family("kimi", "language_model." + DECODER),
    "nano_nemotron_vl": _wraps("NemotronHForCausalLM"),
    "nemotron_h": _family("nemotron_h", "model.layers.{i}.mixer.attn"),
    "olmo_hybrid": _family("delta"),
    "plamo2": _family("plamo2", "model.layers.layers.{i}.mixer.attn"),
    "qwen3_5": _family("delta"),
    "qwen3_5:Qwen3_5ForConditionalGeneration": _family("delta", "language_model." + DECODER),
    "qwen3_5:Qwen3_5MoeForConditionalGeneration": _family("delta", "language_model." + DECODER),
    "qwen3_next": _family("delta"),
    "zamba2": _family("zamba2"),
    "whisper": _family("whisper"),
    "unlimited_ocr": _family("unlimited_ocr", "language_model." + DECODER),
    # Multimodal wrappers that build a class of their own choice, or hang it elsewhere.
    "alpamayo2_super": _wraps("Qwen3ForCausalLM"),
    "audioflamingo3": _wraps("Qwen2ForCausalLM"),
    "aya_vision": _wraps(prefix="model"),
    "bagel": _wraps("Qwen2ForCausalLM"),
    "clef_omni": _wraps("Qwen3MoeForCausalLM"),
    "colqwen3_5": _family("delta", "language_model." + DECODER),
    "colqwen3": _wraps("Qwen3ForCausalLM"),
    "cosmos3": _wraps("Qwen3ForCausalLM"),
    "deepseek_vl2": _wraps(prefix="language"),
    "dots_ocr": _wraps("Qwen2ForCausalLM"),
    "exaone4_5": _wraps("Exaone4ForCausalLM"),
    "fuyu": _wraps("PersimmonForCausalLM"),
    "funaudiochat": _wraps("Qwen3ForCausalLM"),
    "gemma3_mm": _wraps("Gemma3ForCausalLM"),
    "gemma3n_mm": _wraps("Gemma3nForCausalLM"),
    "gemma4_mm": _wraps("Gemma4ForCausalLM"),
    "gemma4_unified": _wraps("Gemma4ForCausalLM"),
    "glmasr": _wraps("LlamaForCausalLM"),
    "isaac": _wraps("Qwen3ForCausalLM"),
    "jina_vl": _wraps("Qwen2ForCausalLM", "qwen2_vl.language_model"),
    "kanana_v": _wraps("LlamaForCausalLM", "model"),
    "keye": _wraps("Qwen3ForCausalLM"),
    "keye_vl1_5": _wraps("Qwen3ForCausalLM"),
    "kimi_audio": _wraps("Qwen2ForCausalLM"),
    "kimi_k25": _wraps("DeepseekV2ForCausalLM"),
    "kimi_vl": _wraps("DeepseekV2ForCausalLM"),
    "llava_onevision2": _wraps("Qwen3ForCausalLM"),
    "midashenglm": _wraps("Qwen2ForCausalLM", "decoder"),
    "mimo_v2_omni": _wraps("MiMoV2FlashForCausalLM"),
    "minicpmo": _wraps(prefix="llm"),
    "minicpmv": _wraps(prefix="llm"),
    "mllama4": _wraps("Llama4ForCausalLM"),
    "moss_audio": _wraps("Qwen3ForCausalLM"),
    "moss_transcribe_diarize": _wraps("Qwen3ForCausalLM"),
    "opencua": _wraps("Qwen2ForCausalLM"),
    "openpangu_vl": _wraps("PanguEmbeddedForCausalLM", "openpangu.language_model"),
    "ovis": _wraps(prefix="llm"),
    "ovis2_5": _wraps(prefix="llm"),
    "paddleocr_vl": _wraps("Ernie4_5ForCausalLM"),
    "phi3v": _wraps("LlamaForCausalLM", ""),
    "phi4siglip": _wraps("Phi3ForCausalLM"),
    "qwen2_5_omni_thinker": _wraps("Qwen2ForCausalLM"),
    "qwen2_5_vl": _wraps("Qwen2ForCausalLM"),
    "qwen2_audio": _wraps("Qwen2ForCausalLM"),
    "qwen2_vl": _wraps("Qwen2ForCausalLM"),
    "qwen3_asr": _wraps("Qwen3ForCausalLM"),
    "qwen3_asr_forced_aligner": _wraps("Qwen3ForCausalLM"),
    "qwen3_asr_realtime": _wraps("Qwen3ForCausalLM"),
    "qwen3_omni_moe_thinker": _wraps("Qwen3MoeForCausalLM"),
    "qwen3_vl": _named_by_and_by("Qwen3ForCausalLM"),
    "qwen3_vl_moe": _named_by_and_by("Qwen3MoeForCausalLM"),
}
"""By module (below vLLM's model folder), or `module:Class` where one module holds unlike classes."""

NAMED_BY_TEXT = frozenset(
    {
        "blip2",
        "eagle2_5_vl",
        "granite_speech",
        "granite_speech_plus",
        "h2ovl",
        "interns1",
        "internvl",
        "lightonocr",
        "llava",
        "llava_next",
        "llava_next_video",
        "llava_onevision",
        "mistral3",
        "models.step5",
        "nvlm_d",
        "skyworkr1v",
        "step3_vl",
        "step3p7",
        "step_vl",
        "ultravox",
        "voxtral",
    }
)
"""Wrappers that build the class which the text config names, and nothing where it names none."""

FILLED_IN: dict[str, dict[str, str]] = {
    "llava": {"mistral": "MistralForCausalLM"},
    "mistral3": {"mistral": "MistralForCausalLM"},
    "paligemma": {"gemma": "GemmaForCausalLM", "gemma2": "Gemma2ForCausalLM"},
}
"""Wrappers that fill in the class themselves where the text config names none, by its model type."""


def recipe_of(entry: Entry, release: Release) -> Recipe:
    """The recipe of a registered class in a release."""
    rows = RECIPES.get(f"{entry.module}:{entry.class_name}") or RECIPES.get(entry.module) or ()
    for row in rows:
        if release.within(row.since, row.until):
            return row
    return WRAPPER if entry.multimodal else GENERAL
