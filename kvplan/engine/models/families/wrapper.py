"""Multimodal classes around a language model that is not their own, which builds the layers.

A module without a row wraps, under `language_model`, the class that its text config names.
"""

from __future__ import annotations

from dataclasses import replace

from kvplan.engine.models.family import Family
from kvplan.engine.models.recipe import Recipe, Recipes, wraps
from kvplan.releases import Span


def _named_by_and_by(architecture: str) -> Recipes:
    """Qwen3-VL: the class is named for the text config only since 0.30.0, and did not matter before 0.17.1."""
    wrapper = Recipe(wraps="language_model", architecture=architecture)
    return (
        replace(wrapper, span=Span(until="0.16.0")),
        replace(wrapper, unnamed=True, span=Span(since="0.17.1", until="0.29.0")),
        replace(wrapper, span=Span(since="0.30.0")),
    )


_MODULES: dict[str, Recipes] = {
    "alpamayo2_super": wraps("Qwen3ForCausalLM"),
    "audioflamingo3": wraps("Qwen2ForCausalLM"),
    "aya_vision": wraps(prefix="model"),
    "bagel": wraps("Qwen2ForCausalLM"),
    "clef_omni": wraps("Qwen3MoeForCausalLM"),
    "colqwen3": wraps("Qwen3ForCausalLM"),
    "cosmos3": wraps("Qwen3ForCausalLM"),
    "deepseek_vl2": wraps(prefix="language"),
    "dots_ocr": wraps("Qwen2ForCausalLM"),
    "exaone4_5": wraps("Exaone4ForCausalLM"),
    "fuyu": wraps("PersimmonForCausalLM"),
    "funaudiochat": wraps("Qwen3ForCausalLM"),
    "gemma3_mm": wraps("Gemma3ForCausalLM"),
    "glmasr": wraps("LlamaForCausalLM"),
    "isaac": wraps("Qwen3ForCausalLM"),
    "jina_vl": wraps("Qwen2ForCausalLM", "qwen2_vl.language_model"),
    "kanana_v": wraps("LlamaForCausalLM", "model"),
    "keye": wraps("Qwen3ForCausalLM"),
    "keye_vl1_5": wraps("Qwen3ForCausalLM"),
    "kimi_audio": wraps("Qwen2ForCausalLM"),
    "kimi_k25": wraps("DeepseekV2ForCausalLM"),
    "kimi_vl": wraps("DeepseekV2ForCausalLM"),
    "llava_onevision2": wraps("Qwen3ForCausalLM"),
    "midashenglm": wraps("Qwen2ForCausalLM", "decoder"),
    "minicpmo": wraps(prefix="llm"),
    "minicpmv": wraps(prefix="llm"),
    "moss_audio": wraps("Qwen3ForCausalLM"),
    "moss_transcribe_diarize": wraps("Qwen3ForCausalLM"),
    "opencua": wraps("Qwen2ForCausalLM"),
    "openpangu_vl": wraps("PanguEmbeddedForCausalLM", "openpangu.language_model"),
    "ovis": wraps(prefix="llm"),
    "ovis2_5": wraps(prefix="llm"),
    "paddleocr_vl": wraps("Ernie4_5ForCausalLM"),
    "phi3v": wraps("LlamaForCausalLM", ""),
    "phi4siglip": wraps("Phi3ForCausalLM"),
    "qwen2_5_omni_thinker": wraps("Qwen2ForCausalLM"),
    "qwen2_5_vl": wraps("Qwen2ForCausalLM"),
    "qwen2_audio": wraps("Qwen2ForCausalLM"),
    "qwen2_vl": wraps("Qwen2ForCausalLM"),
    "qwen3_asr": wraps("Qwen3ForCausalLM"),
    "qwen3_asr_forced_aligner": wraps("Qwen3ForCausalLM"),
    "qwen3_asr_realtime": wraps("Qwen3ForCausalLM"),
    "qwen3_omni_moe_thinker": wraps("Qwen3MoeForCausalLM"),
    "qwen3_vl": _named_by_and_by("Qwen3ForCausalLM"),
    "qwen3_vl_moe": _named_by_and_by("Qwen3MoeForCausalLM"),
}
"""Those that build a class of their own choice, or hang it elsewhere."""

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

WRAPPER = Family(name="wrapper", modules=_MODULES)
"""A wrapper whose class does not tell which language model it builds is taken to follow the general rule."""
