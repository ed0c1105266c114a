"""The builders that recipes name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvplan.engine.models import (
    chunked,
    encoder_decoder,
    gemma,
    general,
    latent,
    looped,
    mixed,
    states,
    transformers_backend,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvplan.engine.models.general import Construction
    from kvplan.engine.models.geometry import LayerGeometry

BUILDERS: dict[str, Callable[[Construction], tuple[LayerGeometry, ...]]] = {
    "alice_ai": states.alice,
    "baichuan": mixed.baichuan,
    "bailing_v2_5": states.bailing_v2_5,
    "bailing_v3": states.bailing_v3,
    "bamba": states.bamba,
    "cohere": mixed.cohere,
    "cohere_asr": encoder_decoder.cohere_asr,
    "delta": states.delta,
    "domyn_edge": mixed.domyn_edge,
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
    "gpt_bigcode": mixed.gpt_bigcode,
    "gpt_oss": mixed.gpt_oss,
    "granite": mixed.granite,
    "granite_hybrid": states.granite_hybrid,
    "hrm_text": looped.hrm_text,
    "hy_v4": latent.hy_v4,
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
    "step3p5": mixed.step3p5,
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

ATTENDS_BOTH_WAYS = frozenset({"hrm_text"})
"""Families whose prompt attends in both directions while its tokens are cached."""

NO_PREFIXES = frozenset({"hrm_text", "unlimited_ocr"})
"""Families whose cached tokens cannot serve another request: prefix caching is switched off, whoever asked for it."""
