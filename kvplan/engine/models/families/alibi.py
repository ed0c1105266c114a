"""Decoders with biases by distance (ALiBi) in all or some of their models: Baichuan, Falcon, Step 1."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kvplan.engine.models import general
from kvplan.engine.models.family import Family
from kvplan.engine.models.geometry import LayerGeometry
from kvplan.engine.models.recipe import named

if TYPE_CHECKING:
    from kvplan.engine.models.construction import Construction

BAICHUAN_ROTARY_HIDDEN_SIZE = 4096


def baichuan(made: Construction) -> tuple[LayerGeometry, ...]:
    """Baichuan: the ALiBi models (all but the 7B, which vLLM tells by its hidden size) get no cache config."""
    built = general.layers(made)
    if made.text.optional("hidden_size") == BAICHUAN_ROTARY_HIDDEN_SIZE:
        return built
    return tuple(replace(layer, reads_cache_config=False) for layer in built)


def falcon(made: Construction) -> tuple[LayerGeometry, ...]:
    """Falcon: neither its rotary nor its ALiBi layers are given the cache config."""
    return tuple(replace(layer, reads_cache_config=False) for layer in general.layers(made))


def step1(made: Construction) -> tuple[LayerGeometry, ...]:
    """Step 1: biases by the root of the distance, whatever the backend."""
    return tuple(replace(layer, needs="alibi_sqrt") for layer in general.layers(made))


FAMILIES = (
    Family(name="baichuan", modules={"baichuan": named(".layers.{i}.self_attn.attn")}, layers=baichuan),
    Family(name="falcon", modules={"falcon": named("transformer.h.{i}.self_attention.attn")}, layers=falcon),
    Family(name="step1", modules={"step1": named()}, layers=step1),
)
