"""HY-V4: latent attention, sparse in some layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvplan.engine.models import latent
from kvplan.engine.models.drafting import DraftRecipe
from kvplan.engine.models.family import Family
from kvplan.engine.models.geometry import LayerGeometry
from kvplan.engine.models.recipe import by_layer_types
from kvplan.history import models as history

if TYPE_CHECKING:
    from kvplan.engine.models.construction import Construction
    from kvplan.engine.models.drafting import DraftModel
    from kvplan.releases import Release

SPARSE_LAYER_TYPES = frozenset({"sparse_attention", "sparse", "deepseek_sparse_attention"})


def hy_v4(made: Construction) -> tuple[LayerGeometry, ...]:
    """HY-V4: `layer_types` says which layers are sparse, `indexer_types` which of those choose for themselves."""
    if not made.use_mla:
        return latent.without_mla(made)
    text, count = made.text, made.count
    words = sparse_words(made.release)
    types = text.items("layer_types") or ()
    sparse = "index_topk" in text
    kinds = text.per_layer("indexer_types", count)
    leads = latent.leads(text) if kinds is None else lambda index: kinds[index] != "shared"
    built: list[LayerGeometry] = []
    for index in range(count):
        here = sparse and index < len(types) and types[index] in words
        if here and leads(index):
            built.append(latent.indexer(made, index))
        built.append(
            latent.row(made, index, latent.dimensions_of(text, sparse=here), sinks=bool(text.get("learnable_sink")))
        )
    return tuple(built)


def sparse_words(release: Release) -> frozenset[str]:
    """The entries of HY-V4's `layer_types` that mean a sparse layer."""
    if release.has(history.HY_V4_INDEXED_ATTENTION):
        return SPARSE_LAYER_TYPES | {"indexed_attention"}
    return SPARSE_LAYER_TYPES


def hy_v4_mtp(draft: DraftModel) -> tuple[LayerGeometry, ...]:
    """A layer beyond `layer_types` is like the last one in it."""
    text = draft.made.text
    types = text.items("layer_types") or ()
    words = sparse_words(draft.made.release)
    sinks = bool(text.get("learnable_sink"))
    built: list[LayerGeometry] = []
    for index in draft.indices:
        kind = types[min(index, len(types) - 1)] if types else None
        sparse = "index_topk" in text and kind in words
        if sparse:
            built.append(latent.indexer(draft.made, index))
        built.append(latent.row(draft.made, index, latent.dimensions_of(text, sparse=sparse), sinks=sinks))
    return tuple(built)


FAMILIES = (
    Family(
        name="hy_v4",
        modules={"models.hy_v4": by_layer_types()},
        layers=hy_v4,
        drafts={"models.hy_v4": DraftRecipe(hy_v4_mtp)},
    ),
)
