"""Multi-head latent attention: DeepSeek, GLM-5, GLM-4 MoE Lite, Kimi, LongCat, HY-V4, A.X K1, openPangu and MiniCPM3.

A layer keeps one latent row a token (kv_lora_rank + qk_rope_head_dim elements). Sparse models add, on the layers
that choose top-k tokens, an indexer with a key cache of its own. It is registered before the attention.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kvplan.engine.models import general
from kvplan.engine.models.geometry import Kind, Latent, LayerGeometry, Role
from kvplan.engine.models.refusals import Refused
from kvplan.history import compressed
from kvplan.history import models as history

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvplan.engine.models.fields import Fields
    from kvplan.engine.models.general import Construction
    from kvplan.releases import Release

_INDEXER_SCALE_BLOCK = 128
"""Elements of an indexer key that share one 4-byte scale."""
SPARSE_LAYER_TYPES = frozenset({"sparse_attention", "sparse", "deepseek_sparse_attention"})


def latent(made: Construction) -> tuple[LayerGeometry, ...]:
    """DeepSeek V2/V3/V3.2 and the classes made after it."""
    if not made.use_mla:
        return _without_mla(made)
    return rows(made, sparse="index_topk" in made.text)


def latent_always(made: Construction) -> tuple[LayerGeometry, ...]:
    """Classes that keep latent rows although vLLM's MLA list does not have their model type."""
    return rows(made, sparse=False)


def expanded(made: Construction) -> tuple[LayerGeometry, ...]:
    """MiniCPM3: latent projections, but keys and values cached per head at full width."""
    size = made.text.whole("qk_nope_head_dim") + made.text.whole("qk_rope_head_dim")
    passed = (None,) * made.count
    return general.uniform(made, passed, kv_heads=made.numbers.num_heads, head_size=size)


def openpangu(made: Construction) -> tuple[LayerGeometry, ...]:
    """openPangu: latent if the config has all four dimensions, else heads, behind learned tokens if it has those."""
    names = ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "kv_lora_rank")
    if all(name in made.text for name in names):
        return rows(made, sparse=False)
    sinks = made.text.optional("param_sink_number")
    if sinks:
        size = made.text.whole("qk_nope_dim") + made.text.whole("qk_rope_dim")
        return tuple(
            replace(
                layer,
                kind=Kind.SINK,
                layer_class="StaticSinkAttention",
                head_size_v=made.text.positive("v_channels"),
                sink_tokens=sinks,
                own_backend="FLASH_ATTN_DIFFKV",
            )
            for layer in general.uniform(made, (None,) * made.count, head_size=size)
        )
    from kvplan.engine.models.windows import interleaved

    return general.uniform(made, interleaved(made.text, made.count))


def longcat(made: Construction) -> tuple[LayerGeometry, ...]:
    """LongCat-Flash: each decoder layer has two latent attentions. Its class asks for a kind of zero expert."""
    if "zero_expert_type" not in made.text:
        raise Refused(made.architecture, "", "AssertionError", "layers", "the config has a zero_expert_type")
    decoders = made.text.first("num_layers", "num_hidden_layers") or 0
    dimensions = dimensions_of(made.text, sparse=False)
    return tuple(
        row(made, index, dimensions, name=made.place(f"model.layers.{index}.self_attn.{half}.attn"))
        for index in range(decoders)
        for half in (0, 1)
    )


def hy_v4(made: Construction) -> tuple[LayerGeometry, ...]:
    """HY-V4: `layer_types` says which layers are sparse, `indexer_types` which of those choose for themselves."""
    if not made.use_mla:
        return _without_mla(made)
    text, count = made.text, made.count
    words = sparse_words(made.release)
    types = text.items("layer_types") or ()
    sparse = "index_topk" in text
    kinds = text.per_layer("indexer_types", count)
    leads = _leads(text) if kinds is None else lambda index: kinds[index] != "shared"
    built: list[LayerGeometry] = []
    for index in range(count):
        here = sparse and index < len(types) and types[index] in words
        if here and leads(index):
            built.append(indexer(made, index))
        built.append(row(made, index, dimensions_of(text, sparse=here), sinks=bool(text.get("learnable_sink"))))
    return tuple(built)


def sparse_words(release: Release) -> frozenset[str]:
    """The entries of HY-V4's `layer_types` that mean a sparse layer."""
    if release.has(history.HY_V4_INDEXED_ATTENTION):
        return SPARSE_LAYER_TYPES | {"indexed_attention"}
    return SPARSE_LAYER_TYPES


def rows(made: Construction, *, sparse: bool) -> tuple[LayerGeometry, ...]:
    """Latent rows for every layer, with indexers where the release builds them."""
    dimensions = dimensions_of(made.text, sparse=sparse)
    if not sparse:
        return tuple(row(made, index, dimensions) for index in range(made.count))
    leads = _leads(made.text) if made.release.has(history.INDEXER_ON_LEADERS_ONLY) else _always
    built: list[LayerGeometry] = []
    for index in range(made.count):
        leader = leads(index)
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
        num_heads=made.numbers.num_heads,
        num_kv_heads=1,
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
    if made.indexer_dtype in ("auto", "fp8"):
        return indexer_row_bytes(width)
    if made.indexer_dtype != "mxfp4":
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
        num_kv_heads=1,
        head_size=indexer_row_bytes(made.text.positive("index_head_dim")),
    )


def _leads(text: Fields) -> Callable[[int], bool]:
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
    heads = made.numbers.num_heads
    return LayerGeometry(name=made.name(index), index=index, num_heads=heads, num_kv_heads=heads, head_size=size)


def _without_mla(made: Construction) -> tuple[LayerGeometry, ...]:
    """The same classes with ordinary attention: the first DeepSeek, or MLA switched off."""
    size = (made.text.optional("qk_nope_head_dim") or 0) + (made.text.optional("qk_rope_head_dim") or 0)
    if made.text.text("model_type") == "deepseek" or size == 0:
        return general.layers(made)
    return general.uniform(made, (None,) * made.count, kv_heads=made.numbers.num_heads, head_size=size)
