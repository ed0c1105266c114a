"""The builders that recipes name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvplan.engine.models import (
    chunked,
    cosmos3_edge,
    deepseek_v4,
    deepseek_v41,
    dots3_note,
    encoder_decoder,
    gemma,
    general,
    glm5_next,
    inkling,
    latent,
    looped,
    mixed,
    qwen4_exp,
    states,
    step5,
    transformers_backend,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvplan.engine.backends.values import BackendQuery
    from kvplan.engine.models.formats import CacheFormat
    from kvplan.engine.models.general import Construction
    from kvplan.engine.models.geometry import LayerGeometry, State
    from kvplan.releases import Release

BUILDERS: dict[str, Callable[[Construction], tuple[LayerGeometry, ...]]] = {
    "alice_ai": states.alice,
    "baichuan": mixed.baichuan,
    "bailing_v2_5": states.bailing_v2_5,
    "bailing_v3": states.bailing_v3,
    "bamba": states.bamba,
    "cohere": mixed.cohere,
    "cohere_asr": encoder_decoder.cohere_asr,
    "cosmos3_edge": cosmos3_edge.cosmos3_edge,
    "deepseek_v4": deepseek_v4.deepseek_v4,
    "deepseek_v41": deepseek_v41.deepseek_v41,
    "delta": states.delta,
    "domyn_edge": mixed.domyn_edge,
    "dots3_note": dots3_note.dots3_note,
    "dory": looped.dory,
    "exaone_moe": mixed.exaone_moe,
    "expanded": latent.expanded,
    "falcon": mixed.falcon,
    "falcon_h1": states.falcon_h1,
    "fireredlid": encoder_decoder.fireredlid,
    "flint": mixed.flint,
    "gemma3n": gemma.gemma3n,
    "gemma4": gemma.gemma4,
    "general": general.layers,
    "glm5_next": glm5_next.glm5_next,
    "gpt_bigcode": mixed.gpt_bigcode,
    "gpt_oss": mixed.gpt_oss,
    "granite": mixed.granite,
    "granite_hybrid": states.granite_hybrid,
    "hrm_text": looped.hrm_text,
    "hy_v4": latent.hy_v4,
    "inkling": inkling.inkling,
    "jamba": states.jamba,
    "kimi": states.kimi,
    "laguna": mixed.laguna,
    "latent": latent.latent,
    "latent_always": latent.latent_always,
    "lfm2": states.lfm2,
    "llama4": chunked.llama4,
    "longcat": latent.longcat,
    "loopcoder": looped.loopcoder,
    "mamba": states.mamba,
    "mamba2": states.mamba2,
    "mimo_v2": mixed.mimo_v2,
    "minimax_m3": mixed.minimax_m3,
    "minimax_text": states.minimax,
    "moondream3": mixed.moondream3,
    "nemotron_h": states.nemotron_h,
    "nemotron_nas": mixed.nemotron_nas,
    "nemotron_parse": encoder_decoder.nemotron_parse,
    "nemotron_parse_prefix": encoder_decoder.nemotron_parse_prefix,
    "openpangu": latent.openpangu,
    "ouro": looped.ouro,
    "plamo2": states.plamo2,
    "plamo3": mixed.plamo3,
    "qwen": mixed.qwen,
    "qwen4_exp": qwen4_exp.qwen4_exp,
    "rnj1": mixed.rnj1,
    "step1": mixed.step1,
    "step3_text": mixed.step3_text,
    "step3p5": mixed.step3p5,
    "step5": step5.step5,
    "transformers": transformers_backend.layers,
    "unlimited_ocr": mixed.unlimited_ocr,
    "whisper": encoder_decoder.whisper,
    "zamba2": states.zamba2,
}
"""By the `family` of a recipe; a `wrapper` has no builder of its own."""

BACKEND_BY_HEAD_SIZES = frozenset({"gemma4"})
"""Families whose config hook picks a backend where layers differ in head size."""

LARGEST_ITEM_TOKENS: dict[str, Callable[[Construction], int | None]] = {"gemma4": gemma.largest_item_tokens}
"""Families whose multimodal processor says how many tokens its largest item has."""

FORMATS: dict[str, Callable[[BackendQuery, Release], CacheFormat]] = {
    "deepseek_v4": deepseek_v4.cache_format,
    "deepseek_v41": deepseek_v41.cache_format,
    "dots3_note": dots3_note.cache_format,
    "inkling": inkling.cache_format,
    "qwen4_exp": qwen4_exp.cache_format,
}
"""Families whose own code picks attention class and row format, instead of asking the backend selector."""

MORE_STATES: dict[str, Callable[[Construction], State]] = {
    "glm5_next": glm5_next.glm5_next_state,
    "qwen4_exp": qwen4_exp.qwen4_exp_state,
}
"""Families of other files with state layers: the state that the class itself reports."""

LAYERS_OF_ONE: dict[str, int] = {"cosmos3_edge": cosmos3_edge.LAYERS_OF_ONE}
"""Families whose decoder counts the parts of a layer as layers: how many pipeline stages split for each."""

NO_PREFIXES = frozenset({"hrm_text", "unlimited_ocr"})
"""Families whose cached tokens cannot serve another request: prefix caching is switched off, whoever asked for it."""
