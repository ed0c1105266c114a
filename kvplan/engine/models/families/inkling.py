"""Inkling: beside each attention a short-convolution state, paged like a sliding window of the kernel's width.

Facts from models/inkling/nvidia/model.py, attention.py and sconv_swa_attn.py.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kvplan.engine.cache_dtypes.dtypes import storage_dtype
from kvplan.engine.models.drafting import NEXTN, from_zero
from kvplan.engine.models.family import Family
from kvplan.engine.models.formats import CacheFormat, FormatRefused
from kvplan.engine.models.geometry import CustomCache, Kind, LayerGeometry, Role
from kvplan.engine.models.recipe import named
from kvplan.engine.models.refusals import Refused
from kvplan.engine.models.shapes import Form

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kvplan.engine.backends.values import BackendQuery
    from kvplan.engine.models.construction import Construction
    from kvplan.engine.models.drafting import DraftModel
    from kvplan.engine.models.fields import Fields
    from kvplan.releases import Release

_DEFAULT_KERNEL = 4


def inkling(made: Construction) -> tuple[LayerGeometry, ...]:
    """A convolution state and an attention, local or global, for each decoder layer."""
    return _layers(made, range(made.count))


def inkling_mtp(draft: DraftModel) -> tuple[LayerGeometry, ...]:
    """Blocks like the target's, numbered from 0: as many as there are, or tokens to speculate if those are fewer."""
    return _layers(draft.made, range(min(draft.count, draft.tokens)))


def mtp_fields(config: Fields) -> Mapping[str, object]:
    """What `mtp_config` puts in the place of the target's own fields. Raises Refused without MTP layers."""
    section = config.section("mtp_config")
    depths = None if section is None else section.optional("num_nextn_predict_layers")
    if section is None or not depths:
        raise Refused("InklingMTPModel", "The Inkling checkpoint does not contain MTP weights")
    return {"num_nextn_predict_layers": depths, "local_layer_ids": tuple(section.items("local_layer_ids") or ())}


def _layers(made: Construction, indices: range) -> tuple[LayerGeometry, ...]:
    text = made.text
    local = {text.number("local_layer_ids", index) for index in text.items("local_layer_ids") or ()}
    kernel = text.first("sconv_kernel_size", "conv_kernel_size") or _DEFAULT_KERNEL
    window = text.positive("sliding_window_size")
    built: list[LayerGeometry] = []
    for index in indices:
        lead = "swa_" if index in local else ""
        heads = text.first(f"{lead}num_attention_heads", "num_attention_heads") or made.numbers.total_heads
        kv_heads = text.first(f"{lead}num_key_value_heads", "num_key_value_heads") or made.numbers.total_kv_heads
        size = text.first(f"{lead}head_dim", "head_dim") or made.numbers.head_size
        built.append(_convolution(made, index, kv_heads, size, kernel))
        built.append(
            LayerGeometry(
                name=made.name(index),
                index=index,
                kind=Kind.OWN,
                layer_class="InklingAttention",
                total_heads=heads,
                total_kv_heads=kv_heads,
                head_size=size,
                head_size_v=size,
                sliding_window=window if index in local else None,
                reads_skip_list=False,
                own=CustomCache(
                    form=Form.WINDOW if index in local else Form.FULL,
                    follows_format=True,
                    is_attention=True,
                    replicated_heads=False,
                ),
            )
        )
    return tuple(built)


def cache_format(query: BackendQuery, _release: Release) -> CacheFormat:
    """FlashAttention with whatever the cache dtype says, but the convolution states demand bfloat16."""
    if query.dtype != "bfloat16":
        raise FormatRefused(
            f"sconv SWA cache supports bfloat16 only, got torch.{query.dtype}",
            "AssertionError",
            "--dtype",
            query.dtype,
            ("bfloat16",),
        )
    return CacheFormat(query.run_dtype, storage_dtype(query.run_dtype, query.dtype), "FLASH_ATTN")


def _convolution(made: Construction, index: int, kv_heads: int, size: int, kernel: int) -> LayerGeometry:
    """Four streams (key, value, attention output, MLP output) side by side, rounded up to a power of two.

    8 heads of 128 over a hidden size of 4,608: 2 * 128 + 2 * 576 = 1,408 elements a head, stored as 2,048; a block
    of 4 tokens on one of 4 ranks is 4 * 2 * 2,048 * 2 = 32,768 bytes.
    """
    width = 2 * size + 2 * (made.text.positive("hidden_size") // kv_heads)
    return LayerGeometry(
        name=made.name(index).removesuffix("attn") + "conv_state",
        index=index,
        kind=Kind.OWN,
        role=Role.STATE,
        layer_class="InklingConvState",
        total_kv_heads=kv_heads,
        head_size=1 << (width - 1).bit_length(),
        head_size_v=0,
        sliding_window=kernel,
        replicates_kv_heads=False,
        custom_backend="INKLING_SCONV_SWA",
        own=CustomCache(
            form=Form.WINDOW,
            storage="bfloat16",
            follows_format=True,
            block_size=kernel,
            replicated_heads=False,
        ),
    )


FAMILIES = (
    Family(
        name="inkling",
        modules={"models.inkling": named("model.layers.{i}.attn")},
        layers=inkling,
        drafts={
            "models.inkling": replace(
                from_zero("model.layers.{i}.transformer_block.attn", *NEXTN, layers=inkling_mtp), fields=mtp_fields
            )
        },
        cache_format=cache_format,
    ),
)
