"""Dots3-Note: indexed latent attention beside sliding latent attention, with rows of one physical width.

Rows of the indexed layers are as wide as those of the sliding ones (1,024 + 64 elements), although they need 576.
Facts from models/dots3_note/nvidia/model.py and attention.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvplan.engine.cache_dtypes.dtypes import storage_dtype
from kvplan.engine.models.drafting import DraftRecipe
from kvplan.engine.models.family import Family
from kvplan.engine.models.formats import CacheFormat
from kvplan.engine.models.geometry import CustomCache, Kind, LayerGeometry
from kvplan.engine.models.latent import indexer
from kvplan.engine.models.recipe import DECODER, named
from kvplan.engine.models.refusals import Refused
from kvplan.engine.models.shapes import Form
from kvplan.engine.models.windows import SLIDING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kvplan.engine.backends.values import BackendQuery
    from kvplan.engine.models.construction import Construction
    from kvplan.engine.models.drafting import DraftModel
    from kvplan.engine.models.fields import Fields
    from kvplan.releases import Release

_SLIDING, _INDEXED = "TRITON_MLA", "DOTS3_NOTE_PADDED_MLA_SPARSE"


def dots3_note(made: Construction) -> tuple[LayerGeometry, ...]:
    """A sliding or an indexed latent attention for each decoder layer, by layer_types."""
    types = made.text.per_layer("layer_types", made.count) or (None,) * made.count
    return _layers(made, range(made.count), types)


def dots3_note_mtp(draft: DraftModel) -> tuple[LayerGeometry, ...]:
    """Layers after the target's, sliding where `mtp_layer_types` does not say otherwise."""
    count = len(draft.indices)
    types = draft.made.text.per_layer("mtp_layer_types", count) or (SLIDING,) * count
    if any(kind != SLIDING for kind in types):
        raise Refused(
            draft.made.architecture,
            "Indexer or topk_indices_buffer required for sparse MLA",
            "AssertionError",
            "layers",
            "that an MTP layer is sliding, as indexed ones get no buffer for what they select",
        )
    return _layers(draft.made, draft.indices, types)


def mtp_fields(config: Fields) -> Mapping[str, object]:
    """Raises Refused where the MTP layers are not those that the config lists."""
    types, count = config.items("mtp_layer_types"), config.optional("num_nextn_predict_layers") or 1
    if types is not None and len(types) != count:
        raise Refused(
            "Dots3NoteMTPModel",
            f"mtp_layer_types must have one entry per MTP layer: got {len(types)} for {count} layers",
        )
    return {"num_nextn_predict_layers": count}


def _layers(made: Construction, indices: range, types: Sequence[object]) -> tuple[LayerGeometry, ...]:
    text = made.text
    width = text.positive("swa_kv_lora_rank") + text.whole("swa_qk_rope_head_dim")
    window = text.positive("sliding_window_size")
    built: list[LayerGeometry] = []
    for index, kind in zip(indices, types, strict=False):
        slides = kind == SLIDING
        if not slides:
            built.append(indexer(made, index))
        built.append(
            LayerGeometry(
                name=made.name(index),
                index=index,
                kind=Kind.OWN,
                layer_class="MLAAttention" if slides else "Dots3NotePaddedMLAAttention",
                total_heads=text.first("swa_num_attention_heads" if slides else "num_attention_heads") or 0,
                total_kv_heads=1,
                head_size=width,
                sliding_window=window if slides else None,
                custom_backend=_SLIDING if slides else _INDEXED,
                own=CustomCache(
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


FAMILIES = (
    Family(
        name="dots3_note",
        modules={"models.dots3_note": named("language_model." + DECODER)},
        layers=dots3_note,
        drafts={"models.dots3_note": DraftRecipe(dots3_note_mtp, fields=mtp_fields)},
        cache_format=cache_format,
    ),
)
