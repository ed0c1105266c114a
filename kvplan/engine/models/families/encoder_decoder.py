"""Encoder-decoder models: each decoder layer has a cache of its text and one of the encoder's output.

The encoder itself caches nothing. Every query head has its own key and value.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kvplan.engine.models import drafting
from kvplan.engine.models.drafting import from_zero
from kvplan.engine.models.family import Family
from kvplan.engine.models.geometry import Kind, LayerGeometry, Role
from kvplan.engine.models.recipe import DECODER, named
from kvplan.history import models as history

if TYPE_CHECKING:
    from kvplan.engine.models.construction import Construction
    from kvplan.engine.models.fields import Fields

FIRERED_WIDTH, FIRERED_HEADS, FIRERED_LAYERS = 1280, 20, 6
"""What FireRedLID's class assumes where the config is silent."""


def whisper(made: Construction) -> tuple[LayerGeometry, ...]:
    """Whisper; its decoder hangs below an empty name, and the layer list below another `layers`."""
    return _bart(made, made.config, ".decoder.layers.{i}.layers.")


def nemotron_parse(made: Construction) -> tuple[LayerGeometry, ...]:
    """Nemotron Parse: an mBART decoder behind a vision encoder."""
    return _bart(made, made.config.section("decoder") or made.config, ".decoder.layers.{i}.")


def nemotron_parse_prefix(made: Construction) -> tuple[LayerGeometry, ...]:
    """Nemotron Parse 3.5: the image stands before the text in one decoder, so that nothing crosses."""
    decoder = made.config.section("decoder") or made.config
    return tuple(
        layer for layer in _bart(made, decoder, ".decoder.layers.{i}.") if layer.role is not Role.CROSS_ATTENTION
    )


def cohere_asr(made: Construction) -> tuple[LayerGeometry, ...]:
    """Cohere Transcribe: the decoder's dimensions stand in `transf_decoder.config_dict`."""
    outer = made.config.section("transf_decoder")
    decoder = None if outer is None else outer.section("config_dict")
    if decoder is None:
        raise made.config.wrong("transf_decoder", "must be an object with a 'config_dict'")
    dot = "" if made.release.has(history.COHERE_ASR_NAMES_WITHOUT_DOT) else "."
    return _pairs(
        dot + "decoder.layers.{i}.layers.",
        ("first_sub_layer", "second_sub_layer"),
        layers=decoder.positive("num_layers"),
        heads=decoder.positive("num_attention_heads"),
        width=decoder.positive("hidden_size"),
    )


def fireredlid(made: Construction) -> tuple[LayerGeometry, ...]:
    """FireRedLID, a language identifier."""
    config = made.config
    return _pairs(
        "model.decoder.layer_stack.{i}.",
        ("self_attn", "cross_attn"),
        layers=config.optional("n_layers_lid_dec") or FIRERED_LAYERS,
        heads=config.optional("n_head") or FIRERED_HEADS,
        width=config.optional("d_model") or FIRERED_WIDTH,
    )


def _bart(made: Construction, decoder: Fields, layout: str) -> tuple[LayerGeometry, ...]:
    return _pairs(
        made.place(layout),
        ("self_attn", "encoder_attn"),
        layers=decoder.positive("decoder_layers"),
        heads=decoder.positive("decoder_attention_heads"),
        width=decoder.positive("d_model"),
    )


def _pairs(layout: str, parts: tuple[str, str], *, layers: int, heads: int, width: int) -> tuple[LayerGeometry, ...]:
    """For each of `layers`: the attention over the text, then that over the encoder's output."""
    built: list[LayerGeometry] = []
    for index in range(layers):
        place = layout.replace("{i}", str(index))
        text = LayerGeometry(
            name=f"{place}{parts[0]}.attn",
            index=index,
            total_heads=heads,
            total_kv_heads=heads,
            head_size=width // heads,
        )
        crossing = replace(
            text,
            name=f"{place}{parts[1]}.attn",
            kind=Kind.CROSS,
            role=Role.CROSS_ATTENTION,
            layer_class="CrossAttention",
        )
        built += [text, crossing]
    return tuple(built)


FAMILIES = (
    Family(name="cohere_asr", modules={"cohere_asr": named()}, layers=cohere_asr),
    Family(name="fireredlid", modules={"fireredlid": named()}, layers=fireredlid),
    Family(name="nemotron_parse", modules={"nemotron_parse": named()}, layers=nemotron_parse),
    Family(
        name="nemotron_parse_prefix",
        modules={"nemotron_parse3_5": named()},
        layers=nemotron_parse_prefix,
        drafts={"nemotron_parse3_5_mtp": from_zero(DECODER, layers=drafting.none)},
    ),
    Family(name="whisper", modules={"whisper": named()}, layers=whisper),
)
