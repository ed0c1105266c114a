"""EXAONE-MoE: windows by a list or by layer_types, in decoder and MTP layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvplan.engine.models import general, windows
from kvplan.engine.models.drafting import MTP_LAYER, NEXTN, attention, from_zero
from kvplan.engine.models.family import Family
from kvplan.engine.models.geometry import LayerGeometry
from kvplan.engine.models.recipe import by_layer_types
from kvplan.history import models as history
from kvplan.history import speculation

if TYPE_CHECKING:
    from kvplan.engine.models.construction import Construction
    from kvplan.engine.models.drafting import DraftModel


def exaone_moe(made: Construction) -> tuple[LayerGeometry, ...]:
    """A list `sliding_windows` comes before layer_types."""
    if made.release.has(history.EXAONE_MOE_LAYER_WINDOWS) and "sliding_windows" in made.text:
        return general.uniform(made, windows.by_list(made.text, "sliding_windows", made.count))
    return general.layers(made)


def exaone_moe_mtp(draft: DraftModel) -> tuple[LayerGeometry, ...]:
    """A layer follows the target's layer of the same number, or lists of its own."""
    text, release = draft.made.text, draft.made.release
    own = release.has(speculation.EXAONE_MTP_HAS_OWN_WINDOWS)
    types = (text.items("mtp_layer_types") if own else None) or text.items("layer_types") or ()
    listed = (text.items("mtp_sliding_windows") if own else None) or text.items("sliding_windows")
    built = []
    for index in draft.indices:
        window = None
        if index < len(types) and types[index] != "full_attention":
            value = listed[index] if listed is not None and own and index < len(listed) else text.get("sliding_window")
            window = None if value is None else text.number("sliding_window", value) or None
        built.append(attention(draft, index, window))
    return tuple(built)


FAMILIES = (
    Family(
        name="exaone_moe",
        modules={"exaone_moe": by_layer_types()},
        layers=exaone_moe,
        drafts={"exaone_moe_mtp": from_zero(MTP_LAYER, *NEXTN, layers=exaone_moe_mtp)},
    ),
)
