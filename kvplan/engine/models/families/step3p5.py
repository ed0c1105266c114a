"""Step 3.5: windows by layer_types, KV heads by attention groups."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kvplan.engine.models import general, windows
from kvplan.engine.models.drafting import DraftRecipe, attention
from kvplan.engine.models.family import Family
from kvplan.engine.models.geometry import LayerGeometry
from kvplan.engine.models.recipe import named
from kvplan.engine.models.refusals import Refused
from kvplan.history import speculation as history

if TYPE_CHECKING:
    from kvplan.engine.models.construction import Construction
    from kvplan.engine.models.drafting import DraftModel


def step3p5(made: Construction) -> tuple[LayerGeometry, ...]:
    """KV heads by attention groups."""
    kv_heads = made.text.first("num_attention_groups", "num_key_value_heads")
    return general.uniform(made, windows.by_layer_types(made.text, made.release, made.count), kv_heads=kv_heads)


def step3p5_mtp(draft: DraftModel) -> tuple[LayerGeometry, ...]:
    """`layer_types` goes on past the decoder layers."""
    text = draft.made.text
    own = text.items("mtp_layer_types")
    if not own and "per_layer_config" in text and draft.made.release.has(history.STEP_MTP_NEEDS_OWN_TYPES):
        raise Refused(draft.made.architecture, "a model must have at least one layer")
    types = [*(text.items("layer_types") or ()), *(own or ())]
    window = windows.config_window(text, draft.made.release)
    if types and draft.indices.stop > len(types):
        raise Refused(draft.made.architecture, "list index out of range", "IndexError", "layers")
    kv_heads = text.first("num_attention_groups", "num_key_value_heads") or draft.made.numbers.total_kv_heads
    return tuple(
        replace(
            attention(draft, index, window if index < len(types) and types[index] == windows.SLIDING else None),
            total_kv_heads=kv_heads,
        )
        for index in draft.indices
    )


FAMILIES = (
    Family(
        name="step3p5",
        modules={"step3p5": named(clears_window=True)},
        layers=step3p5,
        drafts={"step3p5_mtp": DraftRecipe(step3p5_mtp, "model.layers.{i}.mtp_block.self_attn.attn")},
    ),
)
