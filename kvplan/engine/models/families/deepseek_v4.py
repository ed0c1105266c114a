"""DeepSeek-V4: every layer has a sliding latent cache; compressed layers add one or more caches of condensed rows.

A layer of ratio r > 1 keeps one latent row for r tokens and a compressor state of the tokens not condensed yet; r = 4
adds an indexer with a cache and a compressor state of its own. Facts from models/deepseek_v4/attention.py and
compressor.py and v1/attention/backends/mla/sparse_swa.py (in 0.20 and 0.21 under model_executor/layers).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvplan.engine.models.drafting import DraftRecipe
from kvplan.engine.models.family import Family
from kvplan.engine.models.formats import CacheFormat, FormatRefused
from kvplan.engine.models.geometry import CustomCache, Kind, LayerGeometry, Role
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

PACKED_ROW_BYTES = 584
"""448 one-byte NoPE values, 64 bfloat16 RoPE values and 8 scale bytes."""
PACKED_ALIGNMENT = 576
WINDOW_BLOCK = 64
INDEXED_RATIO = 4
"""The ratio of the layers that choose their rows with an indexer; their compressor overlaps two groups."""

DSPARK_STAGES = 3
"""Stages of a DSpark draft whose config does not say."""

_DSPARK_FIELDS = ("dspark_target_layer_ids", "dspark_markov_rank")
_STATE_BLOCKS = {4: 4, 128: 8}
"""Tokens a block of a compressor state, by ratio."""
_FLASHMLA = "FLASHMLA_SPARSE_DSV4"
_FLASHINFER = "FLASHINFER_MLA_SPARSE_DSV4"
_OTHER_FLASHINFER = frozenset({"FLASHINFER_MLA_SPARSE", "FLASHINFER_MLA_SPARSE_SM120"})
_DESKTOP_BLACKWELL = 12


def deepseek_v4(made: Construction) -> tuple[LayerGeometry, ...]:
    """The caches of all layers in the order in which the modules register."""
    ratios = _ratios(made)
    built: list[LayerGeometry] = []
    for index in range(made.count):
        ratio = max(1, ratios[index])
        if ratio == INDEXED_RATIO:
            built += _indexer(made, index, ratio)
        built.append(window(made, index))
        if ratio > 1:
            built.append(_rows(made, index, ratio))
            built.append(_state(made, index, ratio, made.text.positive("head_dim"), f"{made.name(index)}.compressor"))
    return tuple(built)


def cache_format(query: BackendQuery, release: Release) -> CacheFormat:
    """The attention class that the model's code picks, and the rows it stores."""
    wanted = query.wanted
    if wanted in _OTHER_FLASHINFER and release.has(history.V4_NAMES_WRONG_FLASHINFER):
        raise FormatRefused(
            f"{wanted} is not a DeepSeek V4 attention backend. Use FLASHINFER_MLA_SPARSE_DSV4 for DeepSeek V4 "
            "FlashInfer sparse MLA.",
            "ValueError",
            "--attention-backend",
            str(wanted),
            (_FLASHINFER, _FLASHMLA),
        )
    flashinfer = wanted == _FLASHINFER and release.has(history.V4_ON_FLASHINFER)
    desktop = query.major == _DESKTOP_BLACKWELL and release.has(history.V4_DESKTOP_BLACKWELL_ON_FLASHINFER)
    if desktop and (wanted is None or wanted not in ("FLASHMLA_SPARSE", _FLASHMLA)):
        return _packed(query, release, _FLASHINFER)
    if not flashinfer:
        return _packed(query, release, _flashmla(release))
    dtype = query.run_dtype
    return CacheFormat(dtype, "float8_e4m3fn" if dtype.startswith("fp8") else "bfloat16", _FLASHINFER)


def _flashmla(release: Release) -> str:
    """FlashMLA's own name for the model, which changed."""
    return _FLASHMLA if release.has(history.V4_ON_FLASHINFER) else "V4_FLASHMLA_SPARSE"


def _packed(query: BackendQuery, release: Release, backend: str) -> CacheFormat:
    dtype = query.run_dtype
    takes_auto = release.has(history.V4_AUTO_IS_PACKED)
    if not dtype.startswith("fp8") and not (dtype == "auto" and takes_auto):
        raise FormatRefused(
            _refusal(dtype, release),
            "ValueError" if takes_auto else "AssertionError",
            "--kv-cache-dtype",
            dtype,
            ("fp8", "auto") if takes_auto else ("fp8",),
        )
    return CacheFormat("fp8_ds_mla", "uint8", backend, history.V4_AUTO_IS_PACKED if dtype == "auto" else None)


def _refusal(dtype: str, release: Release) -> str:
    if not release.has(history.V4_ON_FLASHINFER):
        return f"DeepseekV4 only supports fp8 kv-cache format for now, got {dtype}"
    if not release.has(history.V4_NAMES_WRONG_FLASHINFER):
        return f"DeepseekV4 FlashMLA fp8 layout only supports fp8 kv-cache, got {dtype}"
    refused = f"DeepseekV4 fp8_ds_mla layout only supports fp8 kv-cache, got {dtype}"
    if release.has(history.V4_AUTO_IS_PACKED):
        refused += ". Please set `--kv-cache-dtype fp8` or select a backend that supports bfloat16 KV cache."
    return refused


def _ratios(made: Construction) -> list[int]:
    """Tokens that one compressed row stands for, by layer (0: none); from `compress_ratios` or from layer_types."""
    text, count = made.text, made.count
    original = text.section("_original")
    listed = text.per_layer("compress_ratios", count)
    if listed is None and original is not None:
        listed = original.per_layer("compress_ratios", count)
    if listed is not None:
        return [text.number("compress_ratios", value) for value in listed[:count]]
    if not made.release.has(history.V4_READS_LAYER_TYPES):
        raise Refused(
            made.architecture,
            "'DeepseekV4Config' object has no attribute 'compress_ratios': this release reads the ratios from there, "
            "not from layer_types and compress_rates",
            "AttributeError",
        )
    types = text.per_layer("layer_types", count)
    rates = text.section("compress_rates")
    if types is None or rates is None:
        raise text.wrong("compress_ratios", "is missing; DeepSeek-V4 needs one entry for each layer")
    return [rates.optional(str(kind)) or 0 for kind in types[:count]]


def _plain_alignment(release: Release) -> int | None:
    """Bytes that pages of unpacked rows are padded to a multiple of."""
    if not release.has(history.V4_ON_FLASHINFER):
        return PACKED_ALIGNMENT
    return 512 if release.has(history.V4_PLAIN_PAGES_ALIGNED) else None


def window(made: Construction, index: int) -> LayerGeometry:
    """The latent rows of the last tokens, which every layer keeps."""
    return LayerGeometry(
        name=f"{made.name(index)}.swa_cache",
        index=index,
        kind=Kind.OWN,
        role=Role.WINDOW,
        layer_class="DeepseekV4SWACache",
        total_kv_heads=1,
        head_size=made.text.positive("head_dim"),
        sliding_window=made.text.positive("sliding_window"),
        custom_backend="DEEPSEEK_SPARSE_SWA",
        own=CustomCache(
            form=Form.WINDOW_LATENT,
            follows_format=True,
            block_size=WINDOW_BLOCK,
            packed_row_bytes=PACKED_ROW_BYTES,
            alignment=_plain_alignment(made.release),
            packed_alignment=PACKED_ALIGNMENT,
            mode_follows_format=made.release.has(history.V4_SPECS_CARRY_MODE),
        ),
    )


def dspark(draft: DraftModel) -> tuple[LayerGeometry, ...]:
    """The stages of a DSpark draft: sliding layers after the target's, `n_mtp_layers` of them or 3."""
    check_dspark(draft)
    count = draft.made.text.optional("n_mtp_layers") or DSPARK_STAGES
    return tuple(window(draft.made, draft.start + stage) for stage in range(count))


def check_dspark(draft: DraftModel) -> None:
    """The fields without which no DSpark draft is built. Raises Refused."""
    made = draft.made
    missing = next((name for name in _DSPARK_FIELDS if made.text.get(name) is None), None)
    if missing is not None:
        raise Refused(made.architecture, f"object has no attribute '{missing}'", "AttributeError", "layers")


def _rows(made: Construction, index: int, ratio: int) -> LayerGeometry:
    """The compressed latent rows, one for `ratio` tokens."""
    return LayerGeometry(
        name=made.name(index),
        index=index,
        kind=Kind.OWN,
        role=Role.ATTENTION,
        layer_class="DeepseekV4Attention",
        total_heads=made.numbers.total_heads,
        total_kv_heads=1,
        head_size=made.text.positive("head_dim"),
        reads_skip_list=False,
        own=CustomCache(
            form=Form.LATENT,
            follows_format=True,
            is_attention=True,
            tokens_per_state=ratio,
            packed_row_bytes=PACKED_ROW_BYTES,
            alignment=_plain_alignment(made.release),
            packed_alignment=PACKED_ALIGNMENT,
            mode_follows_format=made.release.has(history.V4_SPECS_CARRY_MODE),
        ),
    )


def _state(made: Construction, index: int, ratio: int, width: int, place: str) -> LayerGeometry:
    """The state of a compressor: keys and scores, in float32, of the tokens that are not condensed yet.

    Ratio 4 over a row of 512: 2 * 2 * 512 = 2,048 elements a token, 4 tokens a block, 32,768 bytes a page.
    """
    overlap = 2 if ratio == INDEXED_RATIO else 1
    block = _STATE_BLOCKS.get(ratio)
    if block is None:
        raise made.text.wrong("compress_ratios", f"has {ratio}; vLLM compresses by 4 or 128 only")
    return LayerGeometry(
        name=f"{place}.state_cache",
        index=index,
        kind=Kind.OWN,
        role=Role.COMPRESSOR,
        layer_class="CompressorStateCache",
        total_kv_heads=1,
        head_size=2 * overlap * width,
        sliding_window=overlap * ratio,
        custom_backend="CompressorBackend",
        own=CustomCache(
            form=Form.WINDOW_LATENT,
            storage="float32",
            block_size=block,
            alignment=_plain_alignment(made.release),
            packed_alignment=PACKED_ALIGNMENT,
        ),
    )


def _indexer(made: Construction, index: int, ratio: int) -> tuple[LayerGeometry, ...]:
    """The indexer's key rows and its compressor state."""
    width = made.text.positive("index_head_dim")
    place = f"{made.name(index)}.indexer"
    plain = 512 if made.release.has(history.V4_PLAIN_PAGES_ALIGNED) else PACKED_ALIGNMENT
    rows = LayerGeometry(
        name=f"{place}.k_cache",
        index=index,
        kind=Kind.OWN,
        role=Role.INDEXER,
        layer_class="DeepseekV4IndexerCache",
        total_kv_heads=1,
        head_size=chosen_indexer_row_bytes(made, width),
        custom_backend="DEEPSEEK_V4_INDEXER",
        own=CustomCache(
            form=Form.LATENT,
            storage="uint8",
            tokens_per_state=ratio,
            alignment=plain,
            packed_alignment=PACKED_ALIGNMENT,
        ),
    )
    return rows, _state(made, index, ratio, width, f"{place}.compressor")


def mtp(draft: DraftModel) -> tuple[LayerGeometry, ...]:
    """Sliding layers like the target's; MTP layers compress nothing."""
    return tuple(window(draft.made, index) for index in draft.indices)


_LAYOUT = "model.layers.{i}.attn"

FAMILIES = (
    Family(
        name="deepseek_v4",
        modules={"deepseek_v4": named(_LAYOUT), "models.deepseek_v4": named(_LAYOUT)},
        layers=deepseek_v4,
        drafts={
            "deepseek_v4_mtp": DraftRecipe(mtp, _LAYOUT),
            "models.deepseek_v4:DSparkDeepseekV4ForCausalLM": DraftRecipe(dspark, _LAYOUT),
            "models.deepseek_v4:DeepSeekV4MTP": DraftRecipe(mtp, _LAYOUT),
        },
        cache_format=cache_format,
    ),
)
