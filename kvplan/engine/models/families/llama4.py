"""Llama 4: most layers attend within chunks of the text; the layers without rotary positions see all of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kvplan.engine.models import general
from kvplan.engine.models.drafting import Start, own
from kvplan.engine.models.family import Family
from kvplan.engine.models.geometry import Kind, LayerGeometry
from kvplan.engine.models.recipe import named, wraps
from kvplan.engine.models.refusals import Refused
from kvplan.engine.models.towers import ASSERTING, whole_on_request

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvplan.engine.models.construction import Construction
    from kvplan.engine.models.drafting import DraftModel
    from kvplan.engine.models.fields import Fields

_YOCO = ("yoco_global_kv_layer", "yoco_local_kv_layer")
"""Fields that an EAGLE head's config must have, as null."""

DEFAULT_INTERVAL = 4
"""Every so many layers one goes without rotary positions, where the config does not say."""


def llama4(made: Construction) -> tuple[LayerGeometry, ...]:
    """A layer with rotary positions (a non-zero entry of `no_rope_layers`) is chunked if the config has a chunk size.

    Without the list, which released files leave empty, every `no_rope_layer_interval`-th layer has none.
    """
    rotary = _rotary(made.text, made.count)
    layers = general.uniform(made, (None,) * made.count)
    return tuple(_chunked(made, layer) if rotary[layer.index] else layer for layer in layers)


def llama4_eagle(draft: DraftModel) -> tuple[LayerGeometry, ...]:
    """An EAGLE head of Llama 4's own layers; its `no_rope_layers` are counted from its first layer.

    Raises Refused where the config lacks what the class asserts.
    """
    made, text = draft.made, draft.made.text
    missing = next((name for name in _YOCO if name not in text.values), None)
    if missing is not None:
        message = f"'EAGLEConfig' object has no attribute '{missing}'"
        raise Refused(made.architecture, message, "AttributeError", "layers")
    if _experts(text, draft.count) or any(name in text for name in _YOCO):
        raise Refused(
            made.architecture, "", "AssertionError", "layers", "that an EAGLE head has neither experts nor YOCO layers"
        )
    rotary = _rotary(text, draft.count)
    numbers = made.numbers
    built: list[LayerGeometry] = []
    for index in draft.indices:
        layer = LayerGeometry(
            name=made.name(index),
            index=index,
            total_heads=numbers.total_heads,
            total_kv_heads=numbers.total_kv_heads,
            head_size=numbers.head_size,
        )
        built.append(_chunked(made, layer) if rotary[index - draft.start] else layer)
    return tuple(built)


def _rotary(text: Fields, count: int) -> Sequence[object]:
    """By layer, whether it has rotary positions (0: none)."""
    listed = text.per_layer("no_rope_layers", count)
    if listed is not None:
        return listed
    interval = text.optional("no_rope_layer_interval") or DEFAULT_INTERVAL
    return [(index + 1) % interval for index in range(count)]


def _experts(text: Fields, count: int) -> Sequence[object]:
    """The layers with experts: those listed, else every `interleave_moe_layer_step`-th."""
    listed = text.items("moe_layers")
    if listed is not None:
        return listed
    step = text.optional("interleave_moe_layer_step")
    step = 1 if step is None else step
    return range(step - 1, count, step) if step else ()


def _chunked(made: Construction, layer: LayerGeometry) -> LayerGeometry:
    """A layer with rotary positions: chunked if there is a chunk size."""
    chunk = made.text.optional("attention_chunk_size")
    if not chunk:
        return layer
    return replace(layer, kind=Kind.CHUNKED, layer_class="ChunkedLocalAttention", chunk_size=chunk)


FAMILIES = (
    Family(
        name="llama4",
        modules={"llama4": named(), "mllama4": wraps("Llama4ForCausalLM")},
        layers=llama4,
        towers={"mllama4": whole_on_request(ASSERTING)},
        drafts={"llama4_eagle": own(llama4_eagle, Start.STAGE)},
    ),
)
