"""Decoders whose heads follow rules of their own: GPT-BigCode, Moondream 3, Nemotron-NAS, Step 3."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvplan.engine.models import general
from kvplan.engine.models.arch_config import nas_groups
from kvplan.engine.models.family import Family
from kvplan.engine.models.geometry import LayerGeometry
from kvplan.engine.models.recipe import named

if TYPE_CHECKING:
    from kvplan.engine.models.construction import Construction

MOONDREAM_WIDTH, MOONDREAM_HEADS, MOONDREAM_LAYERS = 2048, 32, 24
"""What vLLM's config class of Moondream 3 assumes where the file is silent."""


def gpt_bigcode(made: Construction) -> tuple[LayerGeometry, ...]:
    """GPT-BigCode: one KV head with `multi_query`."""
    kv_heads = 1 if made.text.get("multi_query") else made.numbers.total_heads
    return general.uniform(made, (None,) * made.count, kv_heads=kv_heads)


def moondream3(made: Construction) -> tuple[LayerGeometry, ...]:
    """Moondream 3: names of its own for the dimensions of its decoder."""
    text = made.config.section("text_config") or made.text
    heads = text.first("n_heads", "num_attention_heads") or MOONDREAM_HEADS
    width = text.first("dim", "hidden_size") or MOONDREAM_WIDTH
    return tuple(
        LayerGeometry(
            name=made.name(index),
            index=index,
            total_heads=heads,
            total_kv_heads=text.first("n_kv_heads", "num_key_value_heads") or heads,
            head_size=width // heads,
        )
        for index in range(text.first("n_layers", "num_hidden_layers") or MOONDREAM_LAYERS)
    )


def nemotron_nas(made: Construction) -> tuple[LayerGeometry, ...]:
    """Nemotron-NAS (DeciLM): blocks may lack attention, and group their query heads differently."""
    groups = nas_groups(made.text)
    if len(groups) < made.count:
        raise made.text.wrong("block_configs", f"has {len(groups)} entries for {made.count} layers")
    heads = made.numbers.total_heads
    return tuple(
        LayerGeometry(
            name=made.name(index),
            index=index,
            total_heads=heads,
            total_kv_heads=heads // group,
            head_size=made.numbers.head_size,
        )
        for index, group in enumerate(groups[: made.count])
        if group is not None
    )


def step3_text(made: Construction) -> tuple[LayerGeometry, ...]:
    """Step 3: one KV head, whatever the config says."""
    return general.uniform(made, (None,) * made.count, kv_heads=1)


FAMILIES = (
    Family(name="gpt_bigcode", modules={"gpt_bigcode": named("transformer.h.{i}.attn.attn")}, layers=gpt_bigcode),
    Family(name="moondream3", modules={"moondream3": named("text.blocks.{i}.attn.attn")}, layers=moondream3),
    Family(name="nemotron_nas", modules={"nemotron_nas": named()}, layers=nemotron_nas),
    Family(name="step3_text", modules={"step3_text": named(".layers.{i}.self_attn.attn")}, layers=step3_text),
)
