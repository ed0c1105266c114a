"""Multi-head latent attention: what the families that have it have in common.

A layer keeps one latent row a token (kv_lora_rank + qk_rope_head_dim elements). Sparse models add, on the layers
that choose top-k tokens, an indexer with a key cache of its own. It is registered before the attention.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kvplan.engine.models import general
from kvplan.engine.models.geometry import Kind, LayerGeometry, Role
from kvplan.engine.models.refusals import Refused
from kvplan.engine.models.shapes import Latent
from kvplan.history import compressed
from kvplan.history import models as history

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvplan.engine.models.construction import Construction
    from kvplan.engine.models.drafting import DraftModel
    from kvplan.engine.models.fields import Fields

_INDEXER_SCALE_BLOCK = 128
"""Elements of an indexer key that share one 4-byte scale."""


def rows(made: Construction, *, sparse: bool) -> tuple[LayerGeometry, ...]:
    """Latent rows for every layer, with indexers where the release builds them."""
    dimensions = dimensions_of(made.text, sparse=sparse)
    if not sparse:
        return tuple(row(made, index, dimensions) for index in range(made.count))
    leading = leads(made.text) if made.release.has(history.INDEXER_ON_LEADERS_ONLY) else _always
    built: list[LayerGeometry] = []
    for index in range(made.count):
        leader = leading(index)
        if leader:
            built.append(indexer(made, index))
        built.append(row(made, index, dimensions, owns_indexer=leader))
    return tuple(built)


def dimensions_of(text: Fields, *, sparse: bool) -> Latent:
    """The latent dimensions in the config."""
    return Latent(
        kv_lora_rank=text.positive("kv_lora_rank"),
        qk_rope_head_dim=text.whole("qk_rope_head_dim"),
        qk_nope_head_dim=text.optional("qk_nope_head_dim") or 0,
        v_head_dim=text.optional("v_head_dim") or 0,
        sparse=sparse,
        index_topk=text.optional("index_topk") if sparse else None,
    )


def row(
    made: Construction,
    index: int,
    dimensions: Latent,
    name: str | None = None,
    *,
    sinks: bool = False,
    owns_indexer: bool = False,
) -> LayerGeometry:
    """The latent cache of decoder layer `index`, under `name` if its place is not the recipe's."""
    own_class = made.entry.module == "models.deepseek_v32" and made.release.has(history.SPARSE_MLA_HAS_OWN_CLASS)
    return LayerGeometry(
        name=made.name(index) if name is None else name,
        index=index,
        kind=Kind.MLA,
        layer_class="DeepseekV32Attention" if own_class else "MLAAttention",
        total_heads=made.numbers.total_heads,
        total_kv_heads=1,
        head_size=dimensions.kv_lora_rank + dimensions.qk_rope_head_dim,
        latent=dimensions,
        has_sinks=sinks,
        owns_indexer=owns_indexer,
    )


def indexer_row_bytes(width: int) -> int:
    """Bytes of an indexer's key row: one an element, and a float32 scale for 128 of them: 128 elements take 132."""
    return width + width // _INDEXER_SCALE_BLOCK * 4


def chosen_indexer_row_bytes(made: Construction, width: int) -> int:
    """Bytes of a key row of DeepSeek-V4's indexers, in the dtype that the launch asks for.

    As mxfp4, two elements share a byte and 32 a scale byte: 128 elements take 68. Raises Refused for another
    dtype, and for mxfp4 on a GPU that does not score such keys.
    """
    listens = made.indexer_dtype == "fp4" or made.release.has(compressed.INDEXER_ROWS_CHOSEN)
    if not listens or made.indexer_dtype in ("auto", "fp8"):
        return indexer_row_bytes(width)
    if made.indexer_dtype not in ("fp4", "mxfp4"):
        raise Refused(
            made.architecture,
            f"indexer_kv_dtype={made.indexer_dtype!r} is not supported by the DeepSeek sparse indexer (expected one of "
            "('fp8', 'mxfp4')).",
            "ValueError",
            "layers",
        )
    if not made.datacenter_blackwell and made.release.has(compressed.INDEXER_ROWS_CHOSEN):
        raise Refused(
            made.architecture,
            "indexer_kv_dtype='mxfp4' requires Blackwell datacenter GPUs (sm_10x, e.g. B200/GB200); sm_120 (consumer "
            "Blackwell) and earlier architectures are not supported.",
            "ValueError",
            "layers",
        )
    return width // 2 + width // 32


def indexer(made: Construction, index: int) -> LayerGeometry:
    """The key cache of the indexer of decoder layer `index`."""
    return LayerGeometry(
        name=made.name(index).removesuffix("attn") + "indexer.k_cache",
        index=index,
        kind=Kind.INDEXER,
        role=Role.INDEXER,
        layer_class="DeepseekV32IndexerCache",
        total_kv_heads=1,
        head_size=indexer_row_bytes(made.text.positive("index_head_dim")),
    )


def leads(text: Fields) -> Callable[[int], bool]:
    """Whether a layer chooses its own top-k tokens: by `index_topk_pattern` if given, else by frequency."""
    pattern = text.get("index_topk_pattern")
    if pattern:
        return lambda index: index >= len(pattern) or pattern[index] != "S"
    every = text.optional("index_topk_freq")
    every = 1 if every is None else every
    if every < 1:
        raise text.wrong("index_topk_freq", "must be at least 1")
    offset = text.optional("index_skip_topk_offset")
    offset = 2 if offset is None else offset
    return lambda index: max(index - offset + 1, 0) % every == 0


def _always(_: int) -> bool:
    return True


def unlike_mla(made: Construction, index: int) -> LayerGeometry:
    """Decoder layer `index` of a latent class with MLA switched off: keys and values at full width."""
    size = (made.text.optional("qk_nope_head_dim") or 0) + (made.text.optional("qk_rope_head_dim") or 0)
    heads = made.numbers.total_heads
    return LayerGeometry(name=made.name(index), index=index, total_heads=heads, total_kv_heads=heads, head_size=size)


def without_mla(made: Construction) -> tuple[LayerGeometry, ...]:
    """The same classes with ordinary attention: the first DeepSeek, or MLA switched off."""
    size = (made.text.optional("qk_nope_head_dim") or 0) + (made.text.optional("qk_rope_head_dim") or 0)
    if made.text.text("model_type") == "deepseek" or size == 0:
        return general.layers(made)
    return general.uniform(made, (None,) * made.count, kv_heads=made.numbers.total_heads, head_size=size)


def draft(draft: DraftModel) -> tuple[LayerGeometry, ...]:
    """Latent rows; sparse models' drafts always choose their top-k tokens themselves."""
    made = draft.made
    if not made.use_mla:
        return tuple(unlike_mla(made, index) for index in draft.indices)
    sparse = "index_topk" in made.text
    dimensions = dimensions_of(made.text, sparse=sparse)
    built: list[LayerGeometry] = []
    for index in draft.indices:
        if sparse:
            built.append(indexer(made, index))
        built.append(replace(row(made, index, dimensions), owns_indexer=sparse))
    return tuple(built)


def dense_draft(draft: DraftModel) -> tuple[LayerGeometry, ...]:
    """Latent rows without an indexer."""
    dimensions = dimensions_of(draft.made.text, sparse=False)
    return tuple(row(draft.made, index, dimensions) for index in draft.indices)
