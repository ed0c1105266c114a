"""The families of models, each with all that sets it apart in one file of this folder.

`FILES` is the one list: what is not in it is built by the general rule, or wraps what its text config names. A file is
imported when a model is one of its families.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, TypeVar

from kvplan.engine.models import registered
from kvplan.engine.models.families.general import GENERAL
from kvplan.engine.models.families.wrapper import WRAPPER
from kvplan.engine.models.recipe import Recipe

if TYPE_CHECKING:
    from kvplan.engine.models.drafting import DraftRecipe
    from kvplan.engine.models.family import Family
    from kvplan.engine.models.hooks import ConfigHook
    from kvplan.engine.models.registered import Registration
    from kvplan.releases import Release

T = TypeVar("T")

FILES: dict[str, tuple[str, ...]] = {
    "alibi": ("baichuan", "falcon", "step1"),
    "alice_ai": ("alice_ai",),
    "bailing": ("bailing_moe_linear", "bailing_moe_mtp", "bailing_moe_v3", "bailing_moe_v3_mtp", "bailing_moe_v3_vl"),
    "bamba": ("bamba", "falcon_h1", "granitemoehybrid"),
    "cosmos3_edge": ("cosmos3_edge",),
    "deepseek_v2": (
        "AXK1",
        "deepseek_eagle",
        "deepseek_eagle3",
        "deepseek_mtp",
        "deepseek_v2",
        "glm4_moe_lite",
        "glm4_moe_lite_mtp",
        "mistral_large_3",
        "mistral_large_3_eagle",
        "models.deepseek_v32",
        "sarvam:SarvamMLAForCausalLM",
    ),
    "deepseek_v4": ("deepseek_v4", "deepseek_v4_mtp", "models.deepseek_v4"),
    "deepseek_v41": ("models.deepseek_v41",),
    "delta": (
        "clef_flash",
        "colqwen3_5",
        "d3",
        "interns2_mobius",
        "interns2_preview",
        "minicpm_ocr",
        "minicpmv4_6",
        "minicpmv4_7",
        "olmo_hybrid",
        "qwen3_5",
        "qwen3_5_mtp",
        "qwen3_next",
        "qwen3_next_mtp",
    ),
    "dflash": (
        "lilicorr",
        "models.muse_spark.common.dspark",
        "qwen3_dflash",
        "qwen3_dflash2",
        "qwen3_dspark",
        "qwen3_xpress",
    ),
    "dots3_note": ("models.dots3_note",),
    "encoder_decoder": (
        "cohere_asr",
        "fireredlid",
        "nemotron_parse",
        "nemotron_parse3_5",
        "nemotron_parse3_5_mtp",
        "whisper",
    ),
    "exaone_moe": ("exaone_moe", "exaone_moe_mtp"),
    "gemma": (
        "diffusion_gemma",
        "gemma3n",
        "gemma3n_mm",
        "gemma4",
        "gemma4_dspark",
        "gemma4_mm",
        "gemma4_mtp",
        "gemma4_unified",
    ),
    "glm5_next": ("models.glm5next",),
    "headed": ("gpt_bigcode", "moondream3", "nemotron_nas", "step3_text"),
    "hy_v4": ("models.hy_v4",),
    "inkling": ("models.inkling",),
    "jamba": ("jamba",),
    "kimi": ("kimi_linear", "models.kimi_k3", "models.kimi_k3.nvidia.dspark_mla"),
    "lfm2": ("colbert:ColBERTLfm2Model", "lfm2", "lfm2_moe", "lfm2_vl"),
    "llama4": ("llama4", "llama4_eagle", "mllama4"),
    "longcat": ("longcat_flash", "longcat_flash_mtp", "longcat_flash_ngram"),
    "looped": ("dory", "hrm_text", "iquest_loopcoder", "ouro"),
    "mamba": ("mamba", "mamba2"),
    "mimo_v2": ("mimo_v2", "mimo_v2_flash", "mimo_v2_mtp", "mimo_v2_omni"),
    "minicpm3": ("minicpm3",),
    "minimax_m3": ("models.minimax_m3",),
    "minimax_text": ("minimax_text_01",),
    "nemotron_h": ("nano_nemotron_vl", "nemotron_h", "nemotron_h_mtp"),
    "openpangu": ("openpangu", "openpangu_mtp"),
    "plamo": ("plamo2", "plamo3"),
    "qwen": ("qwen2", "qwen3"),
    "qwen4_exp": ("models.qwen4_exp",),
    "step3p5": ("step3p5", "step3p5_mtp"),
    "step5": ("models.step5",),
    "transformers_backend": ("transformers",),
    "unlimited_ocr": ("unlimited_ocr",),
    "windowed": (
        "cohere2_moe",
        "commandr",
        "domyn_edge",
        "gpt_oss",
        "granite",
        "granitemoe",
        "granitemoeshared",
        "laguna",
        "models.flint",
        "rnj1",
    ),
    "zamba2": ("zamba2",),
}
"""By file: the modules below vLLM's model folder that its families say something of (one class of a module that other
families have a part in as `module:Class`). Its `FAMILIES` say what."""


def of(entry: Registration, release: Release) -> tuple[Family, Recipe]:
    """The family of a registered class and how the class names its layers, in `release`."""
    for family in (*_in_file_of(entry), GENERAL, WRAPPER):
        for recipe in _row(family.modules, entry) or ():
            if release.within(recipe.span):
                return family, recipe
    return (WRAPPER, Recipe(wraps="language_model")) if entry.multimodal else (GENERAL, Recipe())


def draft_of(entry: Registration) -> tuple[Family, DraftRecipe] | None:
    """The family of a registered draft class and how its layers are built; None where its caches are not known."""
    for family in (*_in_file_of(entry), GENERAL):
        recipe = _row(family.drafts, entry)
        if recipe is not None:
            return family, recipe
    return None


def hook_of(architecture: str, release: Release) -> ConfigHook | None:
    """The config hook of an architecture as the config names it; None where it has none."""
    entry = registered.lookup(architecture, release)
    return None if entry is None else of(entry, release)[0].hooks.get(architecture)


def in_file(file: str) -> tuple[Family, ...]:
    """The families of one file of the list."""
    families: tuple[Family, ...] = import_module(f"{__name__}.{file}").FAMILIES
    return families


def file_of(entry: Registration) -> str:
    """The file that says how the layers of a registered class are built; `general` where none does."""
    return next((file for name in _names(entry) for file, modules in FILES.items() if name in modules), GENERAL.name)


def _in_file_of(entry: Registration) -> tuple[Family, ...]:
    file = file_of(entry)
    return () if file == GENERAL.name else in_file(file)


def _row(rows: Mapping[str, T], entry: Registration) -> T | None:
    """What is said of a class, or else of its whole module."""
    return next((rows[name] for name in _names(entry) if name in rows), None)


def _names(entry: Registration) -> tuple[str, str]:
    return f"{entry.module}:{entry.class_name}", entry.module
