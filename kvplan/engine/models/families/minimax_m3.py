"""MiniMax-M3: sparse layers with an indexer cache beside their attention."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kvplan.engine.models import drafting, general
from kvplan.engine.models.drafting import attention, from_zero
from kvplan.engine.models.family import Family
from kvplan.engine.models.geometry import Kind, LayerGeometry, Role
from kvplan.engine.models.recipe import DECODER, by_layer_types, wraps
from kvplan.engine.models.refusals import Refused
from kvplan.engine.models.towers import USUAL, whole_on_request

if TYPE_CHECKING:
    from kvplan.engine.models.construction import Construction
    from kvplan.engine.models.drafting import DraftModel
    from kvplan.engine.models.fields import Fields


def minimax_m3(made: Construction) -> tuple[LayerGeometry, ...]:
    """Layers marked sparse add an indexer cache, keys only, registered before their attention."""
    sparse = made.text.section("sparse_attention_config")
    marks = (sparse.items("sparse_attention_freq") if sparse is not None else None) or ()
    built: list[LayerGeometry] = []
    for layer in general.layers(made):
        if sparse is None or layer.index >= len(marks) or not marks[layer.index]:
            built.append(layer)
            continue
        built.append(_indexer(made, layer, sparse, Role.INDEXER))
        built.append(
            LayerGeometry(
                name=layer.name,
                index=layer.index,
                layer_class="MiniMaxM3SparseAttention",
                total_heads=layer.total_heads,
                total_kv_heads=layer.total_kv_heads,
                head_size=layer.head_size,
                custom_backend="MINIMAX_M3_SPARSE",
                reads_skip_list=False,
            )
        )
    return tuple(built)


def minimax_m3_mtp(draft: DraftModel) -> tuple[LayerGeometry, ...]:
    """Modules numbered from 0, all of them sparse."""
    sparse = draft.made.text.section("sparse_attention_config")
    if sparse is None:
        return drafting.layers(draft)
    built: list[LayerGeometry] = []
    for index in draft.indices:
        layer = attention(draft, index)
        built.append(_indexer(draft.made, layer, sparse, Role.ATTENTION))
        built.append(
            replace(
                layer, layer_class="MiniMaxM3SparseAttention", custom_backend="MINIMAX_M3_SPARSE", reads_skip_list=False
            )
        )
    return tuple(built)


def _indexer(made: Construction, layer: LayerGeometry, sparse: Fields, role: Role) -> LayerGeometry:
    """The keys that the indexer of a sparse layer caches."""
    return LayerGeometry(
        name=f"{layer.name}.index_cache",
        index=layer.index,
        kind=Kind.INDEXER,
        role=role,
        layer_class="MiniMaxM3IndexerCache",
        total_kv_heads=1,
        head_size=sparse.positive("sparse_index_dim"),
        custom_backend="MINIMAX_M3_SPARSE_INDEXER",
        index_dtype=_index_dtype(made),
    )


def _index_dtype(made: Construction) -> str:
    """The dtype of the keys, bfloat16 whatever the model's dtype is unless --attention-config asks for another.

    Raises Refused for those that no indexer of this model computes with.
    """
    asked = "bf16" if made.indexer_dtype in ("auto", "fp4") else made.indexer_dtype
    if asked in ("mxfp4", "nvfp4"):
        raise Refused(
            made.architecture,
            f"indexer_kv_dtype={asked!r} needs the (not-yet-added) CuteDSL indexer impl.",
            "NotImplementedError",
            "layers",
        )
    return "bfloat16" if asked == "bf16" else "float8_e4m3fn"


FAMILIES = (
    Family(
        name="minimax_m3",
        modules={
            "models.minimax_m3": by_layer_types(),
            "models.minimax_m3:MiniMaxM3SparseForConditionalGeneration": wraps("MiniMaxM3SparseForCausalLM"),
        },
        layers=minimax_m3,
        drafts={"models.minimax_m3": from_zero(DECODER, "num_mtp_modules", layers=minimax_m3_mtp)},
        towers={"models.minimax_m3": whole_on_request(USUAL)},
    ),
)
