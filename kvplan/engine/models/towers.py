"""What the vision and audio towers of multimodal models split over tensor-parallel ranks.

A tower caches nothing, but vLLM builds it, and its attention heads and the inner width of its feed-forward layers
must divide by the number of ranks like a decoder's. That a launch forbids images (`--limit-mm-per-prompt`,
`--language-model-only`) does not help: the tower is constructed all the same, only without memory.

Sources: the modules of these names below vLLM's model folder, and the encoders that they share (`clip`, `siglip`,
`pixtral`, `intern_vit`, `idefics2_vision_model`, `moonvit`, `whisper`). Left out: towers of modules without a row,
projectors between tower and language model, and towers that Transformers' own code builds (never split).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kvplan.engine.models.geometry import Tower
from kvplan.releases import ALWAYS, Span

if TYPE_CHECKING:
    from kvplan.engine.models.construction import Construction
    from kvplan.engine.models.fields import Fields

FORMS: dict[str, tuple[str, str, str, str]] = {
    "fused": ("attn.qkv", "attn.proj", "mlp.linear_fc1", "mlp.linear_fc2"),
    "gated": ("attn.qkv", "attn.proj", "mlp.gate_up_proj", "mlp.down_proj"),
    "siglip": ("self_attn.qkv_proj", "self_attn.out_proj", "mlp.fc1", "mlp.fc2"),
}
"""The linear layers of an encoder layer in the order in which they are built: queries, keys and values together, the
output of attention, and the two of the MLP (of which the first holds two projections in `gated`)."""


@dataclass(frozen=True, slots=True)
class TowerRow:
    """One tower of a module."""

    place: str
    """Config section, dotted."""
    heads: str | None = None
    """Field with the attention heads; None where attention stays whole."""
    sizes: tuple[str, ...] = ()
    """Fields with widths that are split; `a*b` for a product."""
    asserts: str | None = None
    """What the attention itself asserts of the heads (mostly without a text); None where vLLM's `divide` does."""
    merged: bool = False
    """Whether the widths belong to merged layers, which assert without a text."""
    yields: bool = False
    """Whether the tower stays whole on every rank where its heads do not divide."""
    late: bool = False
    """Whether the class builds it after the language model."""
    layer: str | None = None
    """Name of the first layer, where the class hands the tower the checkpoint's quantisation and that is followed."""
    form: str = ""
    """How that layer is built, a name of `FORMS`."""
    whole_on_request: bool = False
    """Whether the class follows `--mm-encoder-tp-mode data` (`supports_encoder_tp_data`); vLLM falls back to `weights`
    for others."""
    span: Span = ALWAYS


USUAL = (TowerRow("vision_config", "num_attention_heads", ("intermediate_size",)),)
ASSERTING = (TowerRow("vision_config", "num_attention_heads", ("intermediate_size",), asserts=""),)
_PIXTRAL = (TowerRow("vision_config", "num_attention_heads", ("intermediate_size",), merged=True),)
QWEN = (TowerRow("vision_config", "num_heads", ("intermediate_size",)),)
_QWEN3 = (TowerRow("vision_config", "num_heads", ("intermediate_size",), layer="visual.blocks.0", form="fused"),)
_QWEN_MERGED = (TowerRow("vision_config", "num_heads", ("intermediate_size",), merged=True),)
_QWEN2_5 = (
    TowerRow("vision_config", "num_heads", ("intermediate_size",), merged=True, layer="visual.blocks.0", form="gated"),
)
_GLM = (TowerRow("vision_config", "num_heads", ("out_hidden_size", "intermediate_size"), merged=True),)
_INTERN = (TowerRow("vision_config", None, ("intermediate_size",)),)
PERCEPTION = (
    TowerRow("vision_config", "heads", ("width*mlp_ratio",), asserts="embed_dim must be divisible by num_heads"),
)
_MINICPM_V4_6 = (
    TowerRow(
        "vision_config",
        "num_attention_heads",
        ("intermediate_size",),
        asserts="",
        layer="vpm.encoder.layers.0",
        form="siglip",
    ),
)
_WHISPER = (TowerRow("audio_config", "encoder_attention_heads", ("encoder_ffn_dim",), asserts=""),)
MOON = (
    TowerRow("vision_config", "num_attention_heads", ("intermediate_size",), span=Span(until="0.25.1")),
    TowerRow("vision_config", "num_attention_heads", ("intermediate_size",), yields=True, span=Span(since="0.26.0")),
)


def whole_on_request(rows: tuple[TowerRow, ...]) -> tuple[TowerRow, ...]:
    """The same towers, of a class that follows `--mm-encoder-tp-mode data`."""
    return tuple(replace(row, whole_on_request=True) for row in rows)


def _qwen3_audio(place: str) -> tuple[TowerRow, ...]:
    heads, sizes = "encoder_attention_heads", ("encoder_ffn_dim",)
    return (
        TowerRow(place, heads, sizes, span=Span(until="0.28.0")),
        TowerRow(place, heads, sizes, yields=True, span=Span(since="0.29.0")),
    )


TOWERS: dict[str, tuple[TowerRow, ...]] = {
    **dict.fromkeys(("glm4_1v", "glm_ocr"), whole_on_request(_GLM)),
    **dict.fromkeys(("interns1", "skyworkr1v"), _INTERN),
    **dict.fromkeys(("h2ovl", "internvl", "nvlm_d", "qianfan_ocr"), whole_on_request(_INTERN)),
    **dict.fromkeys(("step3p7", "step_vl"), whole_on_request(PERCEPTION)),
    **dict.fromkeys(
        (
            "alpamayo2_super",
            "clef_flash",
            "cohere_compass",
            "colqwen3",
            "colqwen3_5",
            "cosmos3",
            "interns1_pro",
            "interns2_mobius",
            "interns2_preview",
        ),
        whole_on_request(QWEN),
    ),
    **dict.fromkeys(("qwen3_5", "qwen3_vl", "qwen3_vl_moe"), whole_on_request(_QWEN3)),
    **dict.fromkeys(
        (
            "aya_vision",
            "bee",
            "blip2",
            "clip",
            "cohere2_vision",
            "colmodernvbert",
            "colultravbert",
            "gemma3_mm",
            "granite4_vision",
            "llava",
            "llava_next",
            "llava_next_video",
            "llava_onevision",
            "llava_onevision2",
            "paddleocr_vl",
            "paligemma",
            "phi4siglip",
            "rvl",
            "siglip",
        ),
        USUAL,
    ),
    **dict.fromkeys(("aria", "idefics3", "keye", "keye_vl1_5", "smolvlm"), ASSERTING),
    **dict.fromkeys(("lightonocr", "mistral3", "pixtral"), _PIXTRAL),
    **dict.fromkeys(("eagle2_5_vl", "kimi_vl"), whole_on_request(USUAL)),
    **dict.fromkeys(("minicpmv4_7", "step3_vl"), whole_on_request(ASSERTING)),
    **dict.fromkeys(("opencua", "qwen2_5_vl"), whole_on_request(_QWEN2_5)),
    "exaone4_5": whole_on_request(_QWEN_MERGED),
    **dict.fromkeys(("moss_transcribe_diarize", "ultravox", "voxtral"), _WHISPER),
    **dict.fromkeys(
        ("jina_vl", "qwen2_vl"), whole_on_request((TowerRow("vision_config", "num_heads", ("embed_dim*mlp_ratio",)),))
    ),
    **dict.fromkeys(
        ("granite_speech", "granite_speech_plus"), (TowerRow("encoder_config", None, ("output_dim",), late=True),)
    ),
    **dict.fromkeys(
        ("qwen3_asr", "qwen3_asr_forced_aligner", "qwen3_asr_realtime"),
        (*_qwen3_audio("thinker_config.audio_config"), *_qwen3_audio("audio_config")),
    ),
    "colpali": (*USUAL, TowerRow("vlm_config.vision_config", "num_attention_heads", ("intermediate_size",))),
    "ernie45_vl": (TowerRow("vision_config", "num_heads", ("hidden_size*mlp_ratio",)),),
    "dots_ocr": whole_on_request(_PIXTRAL),
    "hyperclovax_vision_v2": _QWEN_MERGED,
    "kimi_k25": whole_on_request(MOON),
    "minicpmv4_6": whole_on_request(_MINICPM_V4_6),
    "openpangu_vl": (TowerRow("vision_config", "num_heads"),),
    "qwen2_5_omni_thinker": (
        TowerRow(
            "thinker_config.vision_config",
            "num_heads",
            ("intermediate_size",),
            merged=True,
            layer="visual.blocks.0",
            form="gated",
        ),
    ),
    "qwen3_omni_moe_thinker": (
        *_qwen3_audio("thinker_config.audio_config"),
        TowerRow("thinker_config.vision_config", "num_heads", ("intermediate_size",)),
    ),
}
"""By module, below vLLM's model folder, where no family speaks of its towers."""


def towers(made: Construction, of_family: Mapping[str, tuple[TowerRow, ...]]) -> tuple[Tower, ...]:
    """The towers of the class that `made` stands for, with what they split; `of_family` is what its family says."""
    if not made.entry.multimodal:
        return ()
    rows = of_family.get(made.entry.module) or TOWERS.get(made.entry.module, ())
    found = (_tower(row, made) for row in rows if made.release.within(row.span))
    return tuple(tower for tower in found if tower is not None)


def _tower(row: TowerRow, made: Construction) -> Tower | None:
    section: Fields | None = made.config
    for name in row.place.split("."):
        section = None if section is None else section.section(name)
    if section is None:
        return None
    return Tower(
        place=row.place,
        heads=None if row.heads is None else section.optional(row.heads),
        sizes=tuple((name, size) for name in row.sizes if (size := _product(section, name)) is not None),
        asserts=row.asserts,
        merged=row.merged,
        yields=row.yields,
        late=row.late,
        whole_on_request=row.whole_on_request,
        layer=row.layer,
        form=row.form,
        width=None if row.layer is None else section.optional("hidden_size"),
        merger=_merger(section) if row.form == "fused" else None,
    )


def _merger(section: Fields) -> tuple[int, int] | None:
    """A square of patches goes into the projection to the language model together."""
    taken = _product(section, "hidden_size*spatial_merge_size*spatial_merge_size")
    made = section.optional("out_hidden_size")
    return None if taken is None or made is None else (taken, made)


def _product(section: Fields, names: str) -> int | None:
    product: float = 1
    for name in names.split("*"):
        factor = section.get(name)
        if isinstance(factor, bool) or not isinstance(factor, (int, float)):
            return None
        product *= factor
    return int(product)
