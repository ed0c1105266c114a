"""Qwen4-Exp: gated delta nets beside attention that selects groups of tokens by compressed keys (QSA).

An indexed layer keeps all keys and values, one index key for each group, and the open group's raw keys in a ring.
Facts from models/qwen4_exp.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kvplan.engine.cache_dtypes.dtypes import storage_dtype
from kvplan.engine.models.drafting import MTP_LAYER, DraftRecipe
from kvplan.engine.models.families.delta import delta_state
from kvplan.engine.models.family import Family
from kvplan.engine.models.formats import CacheFormat, FormatRefused
from kvplan.engine.models.geometry import CustomCache, Kind, LayerGeometry, Role, Slots, State, StateKind
from kvplan.engine.models.recipe import named, wraps
from kvplan.engine.models.refusals import Refused
from kvplan.engine.models.shapes import Form
from kvplan.engine.models.states import attention_layer, state_layer
from kvplan.engine.models.towers import QWEN, whole_on_request
from kvplan.history import compressed as history

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvplan.engine.backends.values import BackendQuery
    from kvplan.engine.models.construction import Construction
    from kvplan.engine.models.drafting import DraftModel
    from kvplan.releases import Release

_ATTENTION = "QWEN4_EXP_QSA_TRITON"
_SIDE = "QWEN4_EXP_EXP_QSA_STATE"
_WORDS = frozenset({"linear_attention", "full_attention"})
_GATES = frozenset({"silu", "swish", "sigmoid"})
_NO_STAGES = (
    "Qwen4Exp N-gram PLE embedding requires pipeline_parallel_size=1: later pipeline ranks do not receive the token "
    "ids that it looks up."
)
_ROPE_POSITIONS = 12
"""Elements in which a ring row carries three int64 rotary positions."""


def qwen4_exp(made: Construction) -> tuple[LayerGeometry, ...]:
    """A delta net or an attention with its index caches for each decoder layer, by layer_types."""
    text = made.text
    types = _types(made)
    indexed = text.get("indexer_n_heads") is not None
    _check(made, types, indexed=indexed)
    state = delta_state(made)
    embedded = text.members("ple_layer_ids")
    built: list[LayerGeometry] = []
    for index in range(made.count):
        if index + 1 in embedded:
            built.append(_embedding(made, index, state))
        if types and types[index] == "linear_attention":
            built.append(
                state_layer(
                    made, index, state, "model.layers.{i}.linear_attn", layer_class="QwenGatedDeltaNetAttention"
                )
            )
        else:
            built += _attention(made, index)
    return tuple(built)


def qwen4_exp_state(made: Construction) -> State:
    """The delta net's, with that of the per-layer embeddings, which the class reports whether or not it has any."""
    state = delta_state(made)
    return replace(state, beside=(_embedding_state(made, state),))


def _embedding_state(made: Construction, state: State) -> State:
    """The inputs of a dilated convolution over all residual streams, whole on every rank: (4 - 1) * 3 columns of
    4 * 2,048 channels are 147,456 bytes in bfloat16."""
    text = made.text
    return State(
        kind=StateKind.CONVOLUTION,
        kernel=(text.positive("ple_conv_kernel_size") - 1) * text.positive("ngram_size") + 1,
        width=text.positive("hidden_size") * text.positive("hc_count"),
        counts_drafts=True,
        replicated=True,
        follows=state,
    )


def _embedding(made: Construction, index: int, state: State) -> LayerGeometry:
    """The n-gram embedding of decoder layer `index` (`ple_layer_ids` counts from 1)."""
    layer = state_layer(
        made,
        index,
        _embedding_state(made, state),
        "model.layers.{i}.ple",
        layer_class="Qwen4ExpPLELayer",
        backend="PLE_SHORT_CONV_ATTN",
    )
    return replace(layer, one_stage_because=_NO_STAGES)


def _types(made: Construction) -> Sequence[object]:
    """The layer types in the words that the release's config class leaves."""
    original = made.text.section("_original")
    if original is not None and not made.release.has(history.QWEN4_KNOWS_INDEXED_ATTENTION):
        listed = original.per_layer("layer_types", made.count)
        if listed is not None:
            return listed
    return made.text.per_layer("layer_types", made.count) or ()


def qwen4_exp_mtp(draft: DraftModel) -> tuple[LayerGeometry, ...]:
    """Attentions numbered after the target's layers, indexed if the target's are."""
    return tuple(layer for index in draft.indices for layer in _attention(draft.made, index))


def _attention(made: Construction, index: int) -> list[LayerGeometry]:
    if made.text.get("indexer_n_heads") is None:
        return [attention_layer(made, index)]
    return _indexed(made, index)


def _check(made: Construction, types: Sequence[object], *, indexed: bool) -> None:
    """What config class and model code refuse. Raises Refused."""
    text, release = made.text, made.release
    if indexed and release.has(history.QSA_NEEDS_512_OR_2048_GROUPS):
        groups = text.positive("indexer_budget") // text.positive("indexer_compress_ratio")
        if groups not in (512, 2048):
            raise Refused(
                made.architecture,
                f"QSA requires indexer_budget / indexer_compress_ratio to be 512 or 2048, got {groups}",
                check="the number of groups that the indexer selects",
            )
    words = set(_WORDS)
    if release.has(history.QWEN4_KNOWS_SPARSE_ATTENTION):
        words.add("qwen_sparse_attention")
    if release.has(history.QWEN4_KNOWS_INDEXED_ATTENTION):
        words.add("indexed_attention")
    unknown = next((str(kind) for kind in types if kind not in words), None)
    if unknown is not None:
        raise Refused(made.architecture, f"Invalid layer_type {unknown}", "ValueError", "layers", "the layer types")
    if "output_gate_type" in text.values and text.get("output_gate_type") not in _GATES:
        gate = text.get("output_gate_type")
        raise Refused(
            made.architecture, f"unsupported output_gate_type={gate!r}", "AssertionError", "layers", "the output gate"
        )


def cache_format(query: BackendQuery, release: Release) -> CacheFormat:
    """QSA's own kernel, with the cache dtypes it reads."""
    asked = query.kv_cache_dtype
    quantised = release.has(history.QSA_READS_FP8)
    accepted = ("auto", "bfloat16", "fp8", "fp8_e4m3") if quantised else ("auto", "bfloat16")
    if query.dtype != "bfloat16":
        raise FormatRefused(
            "Qwen4Exp QSA currently requires BF16", "NotImplementedError", "--dtype", query.dtype, ("bfloat16",)
        )
    if query.run_dtype not in accepted:
        raise FormatRefused(
            f"Qwen4Exp QSA requires a BF16 {'or FP8-e4m3 ' if quantised else ''}main KV cache",
            "NotImplementedError",
            "--kv-cache-dtype",
            query.run_dtype,
            accepted,
        )
    return CacheFormat(asked, storage_dtype(asked, query.dtype), _ATTENTION)


def _indexed(made: Construction, index: int) -> list[LayerGeometry]:
    text = made.text
    ratio = text.positive("indexer_compress_ratio")
    width = text.positive("indexer_head_dim")
    place = made.name(index).removesuffix("attn") + "indexer"
    raw = -(-width // 4) * 4 + _ROPE_POSITIONS if _has_mrope(made) else width
    return [
        LayerGeometry(
            name=f"{place}.raw_key_cache",
            index=index,
            kind=Kind.OWN,
            role=Role.COMPRESSOR,
            layer_class="QSAKeyStateCache",
            total_kv_heads=1,
            head_size=raw,
            head_size_v=0,
            custom_backend=_SIDE,
            own=CustomCache(
                form=Form.RING, storage="bfloat16", block_size=ratio, slots=Slots.GROUPS, divides_block=True
            ),
        ),
        LayerGeometry(
            name=f"{place}.compressed_key_cache",
            index=index,
            kind=Kind.OWN,
            role=Role.INDEXER,
            layer_class="QSACompressedKeyCache",
            total_kv_heads=1,
            head_size=width,
            custom_backend=_SIDE,
            own=CustomCache(form=Form.LATENT, storage="bfloat16", tokens_per_state=ratio),
        ),
        LayerGeometry(
            name=made.name(index),
            index=index,
            kind=Kind.OWN,
            layer_class="Qwen4ExpQSAAttention",
            total_heads=made.numbers.total_heads,
            total_kv_heads=made.numbers.total_kv_heads,
            head_size=made.numbers.head_size,
            head_size_v=made.numbers.head_size,
            reads_skip_list=made.release.has(history.QSA_HONOURS_SKIP_LIST),
            own=CustomCache(
                form=Form.FULL,
                follows_format=True,
                is_attention=True,
                mode_follows_format=True,
                replicated_heads=False,
            ),
        ),
    ]


def _has_mrope(made: Construction) -> bool:
    rope = made.text.section("rope_parameters")
    return rope is not None and rope.get("mrope_section") is not None


FAMILIES = (
    Family(
        name="qwen4_exp",
        modules={
            "models.qwen4_exp": named(),
            "models.qwen4_exp:Qwen4ExpForConditionalGeneration": wraps("Qwen4ExpForCausalLM"),
        },
        layers=qwen4_exp,
        drafts={
            "models.qwen4_exp": DraftRecipe(qwen4_exp_mtp, MTP_LAYER, count=("mtp_num_hidden_layers",), default_count=1)
        },
        state=qwen4_exp_state,
        cache_format=cache_format,
        spreads_hidden_states=True,
        towers={"models.qwen4_exp": whole_on_request(QWEN)},
    ),
)
