"""What the vision and audio towers of multimodal models split over tensor-parallel ranks.

A tower caches nothing, but vLLM builds it, and its attention heads and the inner width of its feed-forward layers
must divide by the number of ranks like a decoder's. That a launch forbids images (`--limit-mm-per-prompt`,
`--language-model-only`) does not help: the tower is constructed all the same, only without memory.

Sources: the modules of these names below vLLM's model folder, and the encoders that they share (`clip`, `siglip`,
`pixtral`, `intern_vit`, `idefics2_vision_model`, `moonvit`, `whisper`). Left out: towers of modules without a row,
projectors between tower and language model, and towers that Transformers' own code builds (never split).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvplan.engine.models.geometry import Tower
from kvplan.releases import ALWAYS, Span

if TYPE_CHECKING:
    from kvplan.engine.models.construction import Construction
    from kvplan.engine.models.fields import Fields


@dataclass(frozen=True, slots=True)
class Row:
    """One tower of a module."""

    place: str
    """Config section, dotted."""
    heads: str | None = None
    """Field with the attention heads; None where attention stays whole."""
    sizes: tuple[str, ...] = ()
    """Fields with widths that are split; `a*b` for a product."""
    yields: bool = False
    """Whether the tower stays whole on every rank where its heads do not divide."""
    down_projection: str | None = None
    """Name of the first layer's second MLP weight, where the class hands the tower the checkpoint's quantisation."""
    span: Span = ALWAYS


_USUAL = (Row("vision_config", "num_attention_heads", ("intermediate_size",)),)
_QWEN = (Row("vision_config", "num_heads", ("intermediate_size",)),)
_GLM = (Row("vision_config", "num_heads", ("out_hidden_size", "intermediate_size")),)
_INTERN = (Row("vision_config", None, ("intermediate_size",)),)
_PERCEPTION = (Row("vision_config", "heads", ("width*mlp_ratio",)),)
_MINICPM_V4_6 = (
    Row(
        "vision_config",
        "num_attention_heads",
        ("intermediate_size",),
        down_projection="vpm.encoder.layers.0.mlp.fc2",
    ),
)
_WHISPER = (Row("audio_config", "encoder_attention_heads", ("encoder_ffn_dim",)),)
_MOON = (
    Row("vision_config", "num_attention_heads", ("intermediate_size",), span=Span(until="0.25.1")),
    Row("vision_config", "num_attention_heads", ("intermediate_size",), yields=True, span=Span(since="0.26.0")),
)


def _qwen3_audio(place: str) -> tuple[Row, ...]:
    heads, sizes = "encoder_attention_heads", ("encoder_ffn_dim",)
    return (
        Row(place, heads, sizes, span=Span(until="0.28.0")),
        Row(place, heads, sizes, yields=True, span=Span(since="0.29.0")),
    )


TOWERS: dict[str, tuple[Row, ...]] = {
    **dict.fromkeys(
        (
            "aria",
            "aya_vision",
            "bee",
            "blip2",
            "clip",
            "cohere2_vision",
            "colmodernvbert",
            "colultravbert",
            "cosmos3_edge",
            "eagle2_5_vl",
            "gemma3_mm",
            "granite4_vision",
            "idefics3",
            "keye",
            "keye_vl1_5",
            "kimi_vl",
            "lfm2_vl",
            "lightonocr",
            "llava",
            "llava_next",
            "llava_next_video",
            "llava_onevision",
            "llava_onevision2",
            "minicpmv4_7",
            "mistral3",
            "mllama4",
            "models.minimax_m3",
            "paddleocr_vl",
            "paligemma",
            "phi4siglip",
            "pixtral",
            "rvl",
            "siglip",
            "smolvlm",
            "step3_vl",
        ),
        _USUAL,
    ),
    **dict.fromkeys(
        (
            "alpamayo2_super",
            "clef_flash",
            "cohere_compass",
            "colqwen3",
            "colqwen3_5",
            "cosmos3",
            "exaone4_5",
            "hyperclovax_vision_v2",
            "interns1_pro",
            "interns2_mobius",
            "interns2_preview",
            "models.qwen4_exp",
            "opencua",
            "qwen2_5_vl",
            "qwen3_5",
            "qwen3_vl",
            "qwen3_vl_moe",
        ),
        _QWEN,
    ),
    **dict.fromkeys(("h2ovl", "interns1", "internvl", "nvlm_d", "qianfan_ocr", "skyworkr1v"), _INTERN),
    **dict.fromkeys(("glm4_1v", "glm_ocr"), _GLM),
    **dict.fromkeys(("models.step5", "step3p7", "step_vl"), _PERCEPTION),
    **dict.fromkeys(("jina_vl", "qwen2_vl"), (Row("vision_config", "num_heads", ("embed_dim*mlp_ratio",)),)),
    **dict.fromkeys(("kimi_k25", "models.kimi_k3"), _MOON),
    **dict.fromkeys(("moss_transcribe_diarize", "ultravox", "voxtral"), _WHISPER),
    "minicpmv4_6": _MINICPM_V4_6,
    "colpali": (*_USUAL, Row("vlm_config.vision_config", "num_attention_heads", ("intermediate_size",))),
    "dots_ocr": (Row("vision_config", "num_attention_heads", ("intermediate_size",)),),
    "ernie45_vl": (Row("vision_config", "num_heads", ("hidden_size*mlp_ratio",)),),
    "granite_speech": (Row("encoder_config", None, ("output_dim",)),),
    "granite_speech_plus": (Row("encoder_config", None, ("output_dim",)),),
    "openpangu_vl": (Row("vision_config", "num_heads"),),
    "qwen2_5_omni_thinker": (Row("thinker_config.vision_config", "num_heads", ("intermediate_size",)),),
    "qwen3_omni_moe_thinker": (
        Row("thinker_config.vision_config", "num_heads", ("intermediate_size",)),
        *_qwen3_audio("thinker_config.audio_config"),
    ),
    **dict.fromkeys(
        ("qwen3_asr", "qwen3_asr_forced_aligner", "qwen3_asr_realtime"),
        (*_qwen3_audio("thinker_config.audio_config"), *_qwen3_audio("audio_config")),
    ),
}
"""By module, below vLLM's model folder."""

WHOLE_ON_REQUEST = frozenset(
    {
        "alpamayo2_super",
        "clef_flash",
        "cohere_compass",
        "colqwen3",
        "colqwen3_5",
        "cosmos3",
        "cosmos3_edge",
        "dots_ocr",
        "eagle2_5_vl",
        "exaone4_5",
        "glm4_1v",
        "glm_ocr",
        "h2ovl",
        "interns1_pro",
        "interns2_mobius",
        "interns2_preview",
        "internvl",
        "jina_vl",
        "kimi_k25",
        "kimi_vl",
        "minicpmv4_6",
        "minicpmv4_7",
        "mllama4",
        "models.kimi_k3",
        "models.minimax_m3",
        "models.qwen4_exp",
        "models.step5",
        "nvlm_d",
        "opencua",
        "qianfan_ocr",
        "qwen2_5_vl",
        "qwen2_vl",
        "qwen3_5",
        "qwen3_vl",
        "qwen3_vl_moe",
        "step3_vl",
        "step3p7",
        "step_vl",
    }
)
"""Modules whose classes follow `--mm-encoder-tp-mode data` (`supports_encoder_tp_data`); for the others vLLM falls
back to `weights`."""


def towers(made: Construction) -> tuple[Tower, ...]:
    """The towers of the class that `made` stands for, with what they split."""
    if not made.entry.multimodal:
        return ()
    found = (_tower(row, made) for row in TOWERS.get(made.entry.module, ()) if row.span.covers(made.release.acts_as))
    return tuple(tower for tower in found if tower is not None)


def _tower(row: Row, made: Construction) -> Tower | None:
    section: Fields | None = made.config
    for name in row.place.split("."):
        section = None if section is None else section.section(name)
    if section is None:
        return None
    return Tower(
        place=row.place,
        heads=None if row.heads is None else section.optional(row.heads),
        sizes=tuple((name, size) for name in row.sizes if (size := _product(section, name)) is not None),
        yields=row.yields,
        whole_on_request=made.entry.module in WHOLE_ON_REQUEST,
        down_projection=row.down_projection,
        width=None if row.down_projection is None else section.optional("hidden_size"),
    )


def _product(section: Fields, names: str) -> int | None:
    product: float = 1
    for name in names.split("*"):
        factor = section.get(name)
        if isinstance(factor, bool) or not isinstance(factor, (int, float)):
            return None
        product *= factor
    return int(product)
