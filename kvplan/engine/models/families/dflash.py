"""DFlash and its likes: drafters of a block of tokens, whose layers slide alike or by layer_types."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvplan.engine.models import windows
from kvplan.engine.models.drafting import Start, attention, own
from kvplan.engine.models.family import Family
from kvplan.engine.models.geometry import LayerGeometry
from kvplan.engine.models.refusals import Refused
from kvplan.history import speculation as history

if TYPE_CHECKING:
    from kvplan.engine.models.drafting import DraftModel


def dflash(draft: DraftModel) -> tuple[LayerGeometry, ...]:
    """`layer_types`, or `use_swa` of dflash_config for all layers alike."""
    text = draft.made.text
    own = text.section("dflash_config")
    use_swa = bool(own is not None and own.get("use_swa"))
    types = text.items("layer_types")
    sliding = [kind == windows.SLIDING for kind in types or ()]
    if types is None or (use_swa and not any(sliding)):
        sliding = [use_swa] * draft.count
    window = own.optional("swa_window_size") if own is not None else None
    if window is None and not isinstance(text.get("sliding_window"), (list, tuple)):
        window = text.optional("sliding_window")
    if not draft.made.release.has(history.DFLASH_SLIDES):
        sliding = [False] * draft.count
    if 0 < sum(sliding) < len(sliding) and not draft.made.release.has(history.DFLASH_MAY_MIX):
        raise Refused(
            draft.made.architecture,
            "DFlash does not yet support mixed sliding/full attention via layer_types",
            "NotImplementedError",
            "layers",
        )
    if any(sliding) and window is None:
        raise Refused(
            draft.made.architecture,
            "DFlash sliding attention requires a window size configured in dflash_config.swa_window_size or the "
            "top-level sliding_window.",
            "ValueError",
            "layers",
        )
    return tuple(
        attention(draft, index, window if (sliding[position] if position < len(sliding) else False) else None)
        for position, index in enumerate(draft.indices)
    )


FAMILIES = (
    Family(
        name="dflash",
        drafts={
            **dict.fromkeys(("lilicorr", "qwen3_dflash", "qwen3_dflash2", "qwen3_dspark"), own(dflash)),
            "models.muse_spark.common.dspark": own(dflash, Start.TARGET),
            "qwen3_xpress": own(dflash, Start.STAGE),
        },
    ),
)
