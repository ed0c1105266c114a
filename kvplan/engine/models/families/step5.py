"""Step 5: full-attention layers select regions of eight tokens by summaries, and keep the open region in a ring.

Facts from models/step5/nvidia/model.py, config.py, sparse_summary_cache.py and csa_tail_ring.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvplan.engine.models.drafting import DraftRecipe
from kvplan.engine.models.family import Family
from kvplan.engine.models.geometry import CustomCache, Kind, LayerGeometry, Role
from kvplan.engine.models.recipe import named, wraps
from kvplan.engine.models.refusals import Refused
from kvplan.engine.models.shapes import Form
from kvplan.engine.models.towers import PERCEPTION, whole_on_request
from kvplan.engine.models.windows import SLIDING

if TYPE_CHECKING:
    from kvplan.engine.models.construction import Construction
    from kvplan.engine.models.drafting import DraftModel

SUMMARY_BYTES = 256
REGION_TOKENS = 8
RING_ROW_BYTES = 1024
RING_ROWS = 7
"""Rows of the open region that the token which closes it reads back."""
_DSA_HEAD_SIZES = (128, 192)


def step5(made: Construction) -> tuple[LayerGeometry, ...]:
    """Sliding layers as usual; full ones with a summary cache and a tail ring where the config enables them."""
    return _layers(made, range(made.count))


def step5_mtp(draft: DraftModel) -> tuple[LayerGeometry, ...]:
    """Layers after the target's, for which the lists of the config go on."""
    return _layers(draft.made, draft.indices)


def _layers(made: Construction, indices: range) -> tuple[LayerGeometry, ...]:
    text = made.text
    section = text.section("sparse_config")
    if section is None:
        raise _refused(
            made,
            "NotImplementedError",
            "Step5 requires a checkpoint with a sparse_config section; dense-only checkpoints are not supported.",
        )
    sparse = section.get("enabled") is not False
    _check_types(made)
    types = text.items("layer_types_with_mtp") or text.items("layer_types") or ()
    window = text.optional("sliding_window")
    other = text.section("attention_other_setting")
    built: list[LayerGeometry] = []
    for index in indices:
        kind = str(types[index]) if index < len(types) else "full_attention"
        slides = kind == SLIDING if types else index % 2 == 0
        here = text if other is None or other.get("attention_type") != kind or index >= len(types) else other
        heads = here.positive("num_attention_heads")
        if slides and window is not None and here is text:
            heads = text.optional("swa_num_attention_heads") or heads
        kv_heads = here.positive("num_attention_groups")
        size = here.optional("head_dim") or text.optional("head_dim") or text.positive("hidden_size") // heads
        selects = sparse and not slides
        if selects and size not in _DSA_HEAD_SIZES:
            raise _refused(made, "ValueError", f"Step5 DSA supports attention head dimensions 128 or 192, got {size}.")
        if selects and not text.get("use_head_wise_attn_gate"):
            raise _refused(made, "NotImplementedError", "Step5 DSA layers require use_head_wise_attn_gate=true.")
        attention = LayerGeometry(
            name=made.name(index),
            index=index,
            total_heads=heads,
            total_kv_heads=kv_heads,
            head_size=size,
            sliding_window=window if slides else None,
            custom_backend="STEP5_DSA" if selects else "FLASH_ATTN",
        )
        built.append(attention)
        if selects:
            built += [_summary(attention), _ring(attention)]
    return tuple(built)


def _check_types(made: Construction) -> None:
    """The config class wants the layer types of decoder and MTP layers. Raises Refused."""
    listed = made.text.items("layer_types_with_mtp")
    total = made.numbers.num_layers + (made.text.optional("num_nextn_predict_layers") or 0)
    if listed and len(listed) < total:
        raise Refused(
            made.architecture,
            "Step5 layer_types must include the dense stack and every MTP layer: expected at least "
            f"{total} entries, got {len(listed)}.",
        )


def _refused(made: Construction, exception: str, message: str) -> Refused:
    return Refused(made.architecture, message, exception, "layers")


def _summary(attention: LayerGeometry) -> LayerGeometry:
    """One byte row for eight tokens: 2 * 256 = 512 bytes a block of 16."""
    return LayerGeometry(
        name=f"{attention.name}.sparse_summary_cache",
        index=attention.index,
        kind=Kind.OWN,
        role=Role.INDEXER,
        layer_class="Step5SparseSummaryCacheLayer",
        total_kv_heads=1,
        head_size=SUMMARY_BYTES,
        head_size_v=0,
        custom_backend="STEP5_CSA_SUMMARY",
        own=CustomCache(form=Form.FULL, storage="uint8", tokens_per_state=REGION_TOKENS),
    )


def _ring(attention: LayerGeometry) -> LayerGeometry:
    """The open region's rows: one block a request, as large as a page of the attention."""
    return LayerGeometry(
        name=f"{attention.name}.csa_tail_ring",
        index=attention.index,
        kind=Kind.OWN,
        role=Role.COMPRESSOR,
        layer_class="Step5CSATailRing",
        total_kv_heads=1,
        head_size=RING_ROW_BYTES,
        head_size_v=0,
        custom_backend="STEP5_CSA_TAIL_RING",
        own=CustomCache(
            form=Form.RING,
            storage="bfloat16",
            fills_page_of=attention.name,
            ring_row_bytes=RING_ROW_BYTES,
            ring_rows=RING_ROWS,
        ),
    )


FAMILIES = (
    Family(
        name="step5",
        modules={
            "models.step5": named(clears_window=True),
            "models.step5:Step5ForConditionalGeneration": wraps(),
        },
        layers=step5,
        drafts={"models.step5": DraftRecipe(step5_mtp, "model.layers.{i}.mtp_block.self_attn.attn")},
        towers={"models.step5": whole_on_request(PERCEPTION)},
    ),
)
