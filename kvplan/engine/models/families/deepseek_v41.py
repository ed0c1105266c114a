"""DeepSeek-V4.1: a sliding latent cache in every layer, compressed rows only in the layers that others read from.

Facts from models/deepseek_v41/attention.py, compressor.py and nvidia/model.py.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from kvplan.engine.models.drafting import DraftRecipe
from kvplan.engine.models.families.deepseek_v4 import DSPARK_STAGES, check_dspark
from kvplan.engine.models.family import Family
from kvplan.engine.models.formats import CacheFormat, FormatRefused
from kvplan.engine.models.geometry import CustomCache, Kind, LayerGeometry, Role, Slots
from kvplan.engine.models.latent import chosen_indexer_row_bytes
from kvplan.engine.models.recipe import named
from kvplan.engine.models.refusals import Refused
from kvplan.engine.models.shapes import Form
from kvplan.history import compressed as history

if TYPE_CHECKING:
    from kvplan.engine.backends.values import BackendQuery
    from kvplan.engine.models.construction import Construction
    from kvplan.engine.models.drafting import DraftModel
    from kvplan.releases import Release

WINDOW_BLOCK = 32
STATE_BLOCK = 8
"""Slots of a compressor's ring without drafts, or with up to six."""
PLAIN_ALIGNMENT = 512
HEADS_A_GROUP = 8
"""Local query heads that mega attention works on at once."""

_SERVER_BLACKWELL, _DESKTOP_BLACKWELL = 10, 12
_MEGA, _FLASHMLA, _FLASHINFER = "FLASHMLA_MEGA_ATTN_DSV41", "FLASHMLA_SPARSE_DSV41", "FLASHINFER_MLA_SPARSE_DSV41"
_BY_OPTION = {
    "FLASHINFER_MLA_SPARSE_DSV4": _FLASHINFER,
    _FLASHINFER: _FLASHINFER,
    "FLASHMLA_SPARSE": _FLASHMLA,
    "FLASHMLA_SPARSE_DSV4": _FLASHMLA,
    _FLASHMLA: _FLASHMLA,
}
_OTHER_FLASHINFER = frozenset({"FLASHINFER_MLA_SPARSE", "FLASHINFER_MLA_SPARSE_SM120"})


def deepseek_v41(made: Construction) -> tuple[LayerGeometry, ...]:
    """The caches of all layers in the order in which the modules register."""
    text = made.text
    if "max_position_embeddings" not in text and "max_position_embeddings" not in made.config:
        raise Refused(
            made.architecture, "'DeepseekV41Config' object has no attribute 'max_position_embeddings'", "AttributeError"
        )
    ratios = text.per_layer("compress_ratios", made.count) or (0,) * made.count
    sources = {text.number("kv_source_layer_ids", index) for index in text.items("kv_source_layer_ids") or ()}
    indexed = {text.number("index_source_layer_ids", index) for index in text.items("index_source_layer_ids") or ()}
    built: list[LayerGeometry] = []
    for index in range(made.count):
        ratio = text.number("compress_ratios", ratios[index])
        if index in sources:
            built.append(_rows(made, index, ratio))
            if index in indexed:
                built.append(_indexer(made, index, ratio))
        built.append(window(made, index))
        if index in sources and ratio > 1:
            built.append(_state(made, index))
    return tuple(built)


def dspark(draft: DraftModel) -> tuple[LayerGeometry, ...]:
    """The stages of a DSpark draft: sliding layers after the target's, as many as the config says (else 3)."""
    text = draft.made.text
    count = text.optional("n_mtp_layers") or text.optional("num_nextn_predict_layers") or DSPARK_STAGES
    check_dspark(draft)
    return tuple(window(draft.made, draft.start + stage) for stage in range(count))


def cache_format(query: BackendQuery, release: Release) -> CacheFormat:
    """The attention class that the model's code picks, and the rows it stores on this GPU."""
    backend = _backend(query, release)
    dtype = query.run_dtype
    if backend == _FLASHINFER and query.major != _DESKTOP_BLACKWELL:
        if dtype.endswith("_ds_mla"):
            raise _refused(
                f"{dtype} is a packed FlashMLA DeepSeek V4.1 KV cache format; the selected backend stores "
                "plain KV rows.",
                dtype,
                ("auto", "bfloat16", "fp8"),
            )
        return CacheFormat(dtype, "float8_e4m3fn" if dtype.startswith("fp8") else "bfloat16", backend)
    stored = dtype
    if dtype in ("auto", "fp8"):
        stored = "nvfp4_ds_mla" if backend == _MEGA else "fp8_ds_mla"
    elif not dtype.endswith("_ds_mla") or (dtype == "nvfp4_ds_mla" and not release.has(history.V41_MEGA_ATTENTION)):
        raise _refused(
            f"DeepseekV4 packed KV layouts only support fp8 kv-cache, got {dtype}. Please set `--kv-cache-dtype fp8` "
            "or select a backend that supports bfloat16 KV cache.",
            dtype,
            ("auto", "fp8"),
        )
    narrow = query.major == _SERVER_BLACKWELL
    if stored == "nvfp4_ds_mla" and not narrow:
        raise _refused("nvfp4_ds_mla needs the V4.1 KV records, which FlashMLA reads on SM100 only", dtype, ("fp8",))
    window = 528 if narrow else 584
    rows = 288 if stored == "nvfp4_ds_mla" else window
    return CacheFormat(
        stored,
        "uint8",
        backend,
        row_bytes={Form.WINDOW_LATENT: window, Form.LATENT: rows},
        alignment=512 if narrow else 576,
        stride=math.lcm(window, rows) if narrow and release.has(history.V41_BLOCKS_HOLD_WHOLE_RECORDS) else 1,
    )


def _backend(query: BackendQuery, release: Release) -> str:
    wanted = query.wanted
    if wanted in _OTHER_FLASHINFER:
        raise FormatRefused(
            f"{wanted} is not a DeepSeek V4.1 attention backend. Use FLASHINFER_MLA_SPARSE_DSV41 for DeepSeek V4.1 "
            "FlashInfer sparse MLA.",
            "ValueError",
            "--attention-backend",
            str(wanted),
            (_FLASHINFER, _FLASHMLA),
        )
    has_mega = release.has(history.V41_MEGA_ATTENTION)
    if wanted == _MEGA and has_mega:
        return _MEGA
    if wanted in _BY_OPTION:
        return _BY_OPTION[wanted]
    if query.major == _DESKTOP_BLACKWELL:
        return _FLASHINFER
    mega = has_mega and query.major == _SERVER_BLACKWELL and query.num_heads % HEADS_A_GROUP == 0
    return _MEGA if mega else _FLASHMLA


def _refused(message: str, value: str, accepted: tuple[str, ...]) -> FormatRefused:
    return FormatRefused(message, "ValueError", "--kv-cache-dtype", value, accepted)


def window(made: Construction, index: int) -> LayerGeometry:
    """The latent rows of the last tokens: 32 * 584 = 18,688 bytes, padded to 19,008 (Blackwell: 32 * 528 = 16,896)."""
    return LayerGeometry(
        name=f"{made.name(index)}.swa_cache",
        index=index,
        kind=Kind.OWN,
        role=Role.WINDOW,
        layer_class="DeepseekV4SWACache",
        total_heads=made.numbers.total_heads,
        total_kv_heads=1,
        head_size=made.text.positive("head_dim"),
        sliding_window=made.text.positive("sliding_window"),
        custom_backend="DEEPSEEK_SPARSE_SWA",
        own=CustomCache(
            form=Form.WINDOW_LATENT,
            follows_format=True,
            behind_attention=True,
            block_size=WINDOW_BLOCK,
            alignment=PLAIN_ALIGNMENT,
            mode_follows_format=True,
            replays=True,
        ),
    )


def _rows(made: Construction, index: int, ratio: int) -> LayerGeometry:
    """The compressed latent rows that this layer and those after it read."""
    return LayerGeometry(
        name=made.name(index),
        index=index,
        kind=Kind.OWN,
        layer_class="DeepseekV4Attention",
        total_heads=made.numbers.total_heads,
        total_kv_heads=1,
        head_size=made.text.positive("head_dim"),
        reads_skip_list=False,
        own=CustomCache(
            form=Form.LATENT,
            follows_format=True,
            is_attention=True,
            tokens_per_state=max(1, ratio),
            alignment=PLAIN_ALIGNMENT,
            mode_follows_format=True,
        ),
    )


def _state(made: Construction, index: int) -> LayerGeometry:
    """Keys and scores of the open pair, in float32: 8 slots of 2 * 512 elements are 32,768 bytes."""
    return LayerGeometry(
        name=f"{made.name(index)}.compressor.state_cache",
        index=index,
        kind=Kind.OWN,
        role=Role.COMPRESSOR,
        layer_class="CompressorStateCache",
        total_kv_heads=1,
        head_size=2 * made.text.positive("head_dim"),
        head_size_v=0,
        custom_backend="CompressorBackend",
        own=CustomCache(form=Form.RING, storage="float32", block_size=STATE_BLOCK, slots=Slots.POWER),
    )


def _indexer(made: Construction, index: int, ratio: int) -> LayerGeometry:
    width = made.text.positive("index_head_dim")
    return LayerGeometry(
        name=f"{made.name(index)}.indexer.k_cache",
        index=index,
        kind=Kind.OWN,
        role=Role.INDEXER,
        layer_class="DeepseekV4IndexerCache",
        total_heads=made.numbers.total_heads,
        total_kv_heads=1,
        head_size=chosen_indexer_row_bytes(made, width),
        custom_backend="DEEPSEEK_V41_INDEXER",
        own=CustomCache(
            form=Form.LATENT,
            storage="uint8",
            follows_format=True,
            tokens_per_state=max(1, ratio),
            alignment=PLAIN_ALIGNMENT,
        ),
    )


FAMILIES = (
    Family(
        name="deepseek_v41",
        modules={"models.deepseek_v41": named("language_model.model.layers.{i}.attn")},
        layers=deepseek_v41,
        drafts={"models.deepseek_v41": DraftRecipe(dspark, "model.layers.{i}.attn")},
        cache_format=cache_format,
    ),
)
