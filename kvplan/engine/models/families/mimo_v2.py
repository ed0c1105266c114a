"""MiMo-V2: sliding layers with heads of their own, and values narrower than keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvplan.engine.models.drafting import NEXTN, from_zero
from kvplan.engine.models.family import Family
from kvplan.engine.models.geometry import LayerGeometry
from kvplan.engine.models.recipe import named, wraps
from kvplan.history import models as history

if TYPE_CHECKING:
    from kvplan.engine.models.construction import Construction
    from kvplan.engine.models.drafting import DraftModel


def mimo_v2(made: Construction) -> tuple[LayerGeometry, ...]:
    """Sliding layers have heads of their own, and values are narrower than keys (first padded to them)."""
    text, count = made.text, made.count
    pattern = text.per_layer("hybrid_layer_pattern", count)
    if pattern is None:
        raise text.wrong("hybrid_layer_pattern", "is missing; MiMo-V2 needs one entry for each layer")
    sinks = bool(text.get("add_swa_attention_sink_bias"))
    window = text.first("sliding_window_size", "sliding_window")
    narrow = made.release.has(history.MIMO_V2_STORES_NARROW_VALUES)
    built = []
    for index in range(count):
        sliding = pattern[index] == 1
        lead = "swa_" if sliding else ""
        built.append(
            LayerGeometry(
                name=made.name(index),
                index=index,
                total_heads=text.whole(f"{lead}num_attention_heads"),
                total_kv_heads=text.whole(f"{lead}num_key_value_heads"),
                head_size=text.positive(f"{lead}head_dim"),
                head_size_v=text.optional(f"{lead}v_head_dim") if narrow else None,
                sliding_window=window if sliding else None,
                has_sinks=sinks and sliding,
                brings_value_backend=narrow,
                reads_cache_config=made.release.has(history.MIMO_V2_READS_CACHE_CONFIG),
            )
        )
    return tuple(built)


def mimo_v2_mtp(draft: DraftModel) -> tuple[LayerGeometry, ...]:
    """One layer like the target's sliding ones; vLLM builds only the first."""
    text = draft.made.text
    window = text.optional("sliding_window_size")
    narrow = draft.made.release.has(history.MIMO_V2_STORES_NARROW_VALUES)
    return (
        LayerGeometry(
            name=draft.made.name(0),
            index=0,
            total_heads=text.whole("swa_num_attention_heads"),
            total_kv_heads=text.whole("swa_num_key_value_heads"),
            head_size=text.positive("swa_head_dim"),
            head_size_v=text.optional("swa_v_head_dim") if narrow else None,
            sliding_window=window or None,
            has_sinks=bool(text.get("add_swa_attention_sink_bias")),
            brings_value_backend=narrow,
            reads_cache_config=draft.made.release.has(history.MIMO_V2_READS_CACHE_CONFIG),
        ),
    )


FAMILIES = (
    Family(
        name="mimo_v2",
        modules={
            "mimo_v2": named(clears_window=True),
            "mimo_v2_flash": named(clears_window=True),
            "mimo_v2_omni": wraps("MiMoV2FlashForCausalLM"),
        },
        layers=mimo_v2,
        drafts={"mimo_v2_mtp": from_zero("model.mtp.layers.{i}.self_attn.attn", *NEXTN, layers=mimo_v2_mtp)},
    ),
)
