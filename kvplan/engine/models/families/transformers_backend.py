"""Models that vLLM runs through Transformers' own code, with vLLM's attention put into it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvplan.engine.models import arch_config, latent, registered, windows
from kvplan.engine.models.family import Family
from kvplan.engine.models.geometry import LayerGeometry
from kvplan.engine.models.recipe import named
from kvplan.engine.models.refusals import Refused, Unplaceable
from kvplan.history import models as history

if TYPE_CHECKING:
    from kvplan.engine.models.construction import Construction

BASE_MODEL = "model"
"""Attribute under which the backend keeps the Transformers base model."""
NO_ATTENTION = "-"
"""In the table of Transformers classes: its layers do not go through the exchangeable attention interface."""
WITHOUT_POSITIONS = (
    "Bart",
    "BigBirdPegasus",
    "Blenderbot",
    "FSMT",
    "LongT5",
    "M2M100",
    "MBart",
    "MT5",
    "Marian",
    "NllbMoe",
    "PLBart",
    "Pegasus",
    "Speech2Text",
    "T5For",
    "T5Model",
    "UMT5",
)
"""How the names of encoder-decoder classes begin whose decoder takes no positions, which the backend must hand it."""
UNKNOWN = "?"
"""In the same table: the module path is not known."""


def layers(made: Construction) -> tuple[LayerGeometry, ...]:
    """One attention a layer of the wrapped model; a model that attends in both directions keeps nothing."""
    wrapped = registered.transformers_class(made.source)
    support = wrapped.support if wrapped is not None else "full"
    if support == "encoder" and made.text.values is made.config.values:
        return ()
    if support.startswith("cross") and made.source.startswith(WITHOUT_POSITIONS):
        raise Refused(
            made.architecture,
            "Argument position_ids not found in the forward method of the decoder of the wrapped Transformers class.",
            "ValueError",
            "layers",
        )
    if support.startswith("cross"):
        raise Unplaceable(made.architecture, "it is an encoder-decoder model with cross-attention caches")
    layout = _layout(made, wrapped)
    crossing = made.text.members("cross_attention_layers")
    names = tuple(
        made.place(
            (layout.replace("self_attn", "cross_attn") if index in crossing else layout).replace("{i}", str(index))
        )
        for index in range(made.count)
    )
    if made.use_mla:
        dimensions = latent.dimensions_of(made.text, sparse=False)
        return tuple(latent.row(made, index, dimensions, name=name) for index, name in enumerate(names))
    passed = _windows(made)
    shapes = _shapes(made)
    return tuple(
        LayerGeometry(
            name=name,
            index=index,
            total_heads=made.numbers.total_heads,
            total_kv_heads=shapes[index].kv_heads,
            head_size=shapes[index].head_size,
            sliding_window=passed[index],
        )
        for index, name in enumerate(names)
    )


def _layout(made: Construction, wrapped: registered.Wrapped | None) -> str:
    """How the release names the attention of layer `{i}`."""
    if not made.release.has(history.TRANSFORMERS_BACKEND_FULL_NAMES):
        return made.recipe.layout
    path = wrapped.attention if wrapped is not None else "layers.{i}.self_attn"
    if path == NO_ATTENTION:
        raise Refused(
            made.architecture,
            "Layer 0 does not dispatch through the Transformers attention interface and vLLM has no other way to "
            "handle it.",
            "ValueError",
            "layers",
        )
    if path == UNKNOWN:
        raise Unplaceable(made.architecture, "the names of its attention modules in Transformers are not known")
    return f"{BASE_MODEL}.{path}.attn"


def _windows(made: Construction) -> tuple[int | None, ...]:
    reads_text = made.release.has(history.TRANSFORMERS_BACKEND_READS_TEXT_CONFIG)
    return windows.by_layer_types(made.text if reads_text else made.config, made.release, made.count)


def _shapes(made: Construction) -> tuple[arch_config.HeadShape, ...]:
    """The heads of each layer: the model-level ones unless the release keeps them apart."""
    found = made.numbers
    text = made.text
    if made.release.has(history.PER_LAYER_ARCHITECTURE) and "per_layer_config" in text:
        return arch_config.gemma4_shapes(text)
    size = found.head_size
    if "kv_lora_rank" in text and made.release.has(history.TRANSFORMERS_BACKEND_USES_MLA):
        # Latent dimensions without MLA: keys at full width.
        size = (text.optional("qk_nope_head_dim") or 0) + (text.optional("qk_rope_head_dim") or 0) or size
    return (arch_config.HeadShape(found.total_kv_heads, size),) * made.count


FAMILIES = (Family(name="transformers", modules={"transformers": named("{i}.attn")}, layers=layers),)
