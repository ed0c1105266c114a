"""The builders that recipes name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvplan.engine.models import gemma, general, latent, mixed, transformers_backend

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvplan.engine.models.general import Construction
    from kvplan.engine.models.geometry import LayerGeometry

BUILDERS: dict[str, Callable[[Construction], tuple[LayerGeometry, ...]]] = {
    "baichuan": mixed.baichuan,
    "cohere": mixed.cohere,
    "domyn_edge": mixed.domyn_edge,
    "exaone_moe": mixed.exaone_moe,
    "expanded": latent.expanded,
    "falcon": mixed.falcon,
    "flint": mixed.flint,
    "gemma3n": gemma.gemma3n,
    "gemma4": gemma.gemma4,
    "general": general.layers,
    "gpt_bigcode": mixed.gpt_bigcode,
    "gpt_oss": mixed.gpt_oss,
    "granite": mixed.granite,
    "granite_hybrid": mixed.granite_hybrid,
    "hy_v4": latent.hy_v4,
    "laguna": mixed.laguna,
    "latent": latent.latent,
    "latent_always": latent.latent_always,
    "longcat": latent.longcat,
    "mimo_v2": mixed.mimo_v2,
    "minimax_m3": mixed.minimax_m3,
    "nemotron_nas": mixed.nemotron_nas,
    "openpangu": latent.openpangu,
    "plamo3": mixed.plamo3,
    "qwen": mixed.qwen,
    "step3p5": mixed.step3p5,
    "transformers": transformers_backend.layers,
}
"""By the `family` of a recipe; a `wrapper` has no builder of its own."""

BACKEND_BY_HEAD_SIZES = frozenset({"gemma4"})
"""Families whose config hook picks a backend where layers differ in head size."""

LARGEST_ITEM_TOKENS: dict[str, Callable[[Construction], int | None]] = {"gemma4": gemma.largest_item_tokens}
"""Families whose multimodal processor says how many tokens its largest item has."""
