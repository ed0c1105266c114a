"""Dots3-Note: indexed latent attention beside sliding latent attention, with rows of one physical width.

Rows of the indexed layers are as wide as those of the sliding ones (1,024 + 64 elements), although they need 576.
Facts from models/dots3_note/nvidia/model.py and attention.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvplan.engine.dtypes import storage_dtype
from kvplan.engine.models.formats import CacheFormat
from kvplan.engine.models.geometry import Form, Kind, LayerGeometry, OwnCache
from kvplan.engine.models.latent import indexer
from kvplan.engine.models.windows import SLIDING

if TYPE_CHECKING:
    from kvplan.engine.backends.values import BackendQuery
    from kvplan.engine.models.general import Construction
    from kvplan.releases import Release

_SLIDING, _INDEXED = "TRITON_MLA", "DOTS3_NOTE_PADDED_MLA_SPARSE"


def dots3_note(made: Construction) -> tuple[LayerGeometry, ...]:
    """A sliding or an indexed latent attention for each decoder layer, by layer_types."""
    text = made.text
    types = text.per_layer("layer_types", made.count) or ()
    width = text.positive("swa_kv_lora_rank") + text.whole("swa_qk_rope_head_dim")
    window = text.positive("sliding_window_size")
    built: list[LayerGeometry] = []
    for index in range(made.count):
        slides = bool(types) and types[index] == SLIDING
        if not slides:
            built.append(indexer(made, index))
        built.append(
            LayerGeometry(
                name=made.name(index),
                index=index,
                kind=Kind.OWN,
                layer_class="MLAAttention" if slides else "Dots3NotePaddedMLAAttention",
                num_heads=text.first("swa_num_attention_heads" if slides else "num_attention_heads") or 0,
                num_kv_heads=1,
                head_size=width,
                sliding_window=window if slides else None,
                own_backend=_SLIDING if slides else _INDEXED,
                own=OwnCache(
                    form=Form.WINDOW_LATENT if slides else Form.LATENT,
                    follows_format=True,
                    is_attention=True,
                    mode_follows_format=True,
                ),
            )
        )
    return tuple(built)


def cache_format(query: BackendQuery, _release: Release) -> CacheFormat:
    """The cache dtype as it stands; the packed one is taken back to plain fp8."""
    asked = "fp8" if query.kv_cache_dtype == "fp8_ds_mla" else query.kv_cache_dtype
    return CacheFormat(asked, storage_dtype(asked, query.dtype), _INDEXED)
