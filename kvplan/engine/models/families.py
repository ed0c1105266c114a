"""The builders that recipes name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvplan.engine.models import (
    chunked,
    deepseek_v4,
    deepseek_v41,
    encoder_decoder,
    gemma,
    general,
    glm5_next,
    inkling,
    latent,
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
    "baichuan": mixed.baichuan,
    "cohere": mixed.cohere,
    "cohere_asr": encoder_decoder.cohere_asr,
    "deepseek_v4": deepseek_v4.deepseek_v4,
    "deepseek_v41": deepseek_v41.deepseek_v41,
    "domyn_edge": mixed.domyn_edge,
    "exaone_moe": mixed.exaone_moe,
    "expanded": latent.expanded,
    "falcon": mixed.falcon,
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
    "hy_v4": latent.hy_v4,
    "inkling": inkling.inkling,
    "laguna": mixed.laguna,
    "latent": latent.latent,
    "latent_always": latent.latent_always,
    "llama4": chunked.llama4,
    "longcat": latent.longcat,
    "mimo_v2": mixed.mimo_v2,
    "minimax_m3": mixed.minimax_m3,
    "nemotron_nas": mixed.nemotron_nas,
    "nemotron_parse": encoder_decoder.nemotron_parse,
    "nemotron_parse_prefix": encoder_decoder.nemotron_parse_prefix,
    "openpangu": latent.openpangu,
    "plamo3": mixed.plamo3,
    "qwen": mixed.qwen,
    "qwen4_exp": qwen4_exp.qwen4_exp,
    "step3p5": mixed.step3p5,
    "step5": step5.step5,
    "transformers": transformers_backend.layers,
    "alice_ai": states.alice,
    "bailing_v2_5": states.bailing_v2_5,
    "bailing_v3": states.bailing_v3,
    "bamba": states.bamba,
    "delta": states.delta,
    "falcon_h1": states.falcon_h1,
    "jamba": states.jamba,
    "kimi": states.kimi,
    "lfm2": states.lfm2,
    "mamba": states.mamba,
    "mamba2": states.mamba2,
    "minimax_text": states.minimax,
    "nemotron_h": states.nemotron_h,
    "plamo2": states.plamo2,
    "zamba2": states.zamba2,
    "whisper": encoder_decoder.whisper,
}
"""By the `family` of a recipe; a `wrapper` has no builder of its own."""

BACKEND_BY_HEAD_SIZES = frozenset({"gemma4"})
"""Families whose config hook picks a backend where layers differ in head size."""

LARGEST_ITEM_TOKENS: dict[str, Callable[[Construction], int | None]] = {"gemma4": gemma.largest_item_tokens}
"""Families whose multimodal processor says how many tokens its largest item has."""

FORMATS: dict[str, Callable[[BackendQuery, Release], CacheFormat]] = {
    "deepseek_v4": deepseek_v4.cache_format,
    "deepseek_v41": deepseek_v41.cache_format,
    "inkling": inkling.cache_format,
    "qwen4_exp": qwen4_exp.cache_format,
}
"""Families whose own code picks attention class and row format, instead of asking the backend selector."""

MORE_STATES: dict[str, Callable[[Construction], State]] = {
    "glm5_next": glm5_next.glm5_next_state,
    "qwen4_exp": states.delta_state,
}
"""Families of other files with state layers: the state that the class itself reports."""
