"""Gated delta nets beside gated attention: Qwen3-Next, Qwen3.5, OLMo Hybrid and what is built on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvplan.engine.models.drafting import MTP_LAYER, NEXTN, from_zero
from kvplan.engine.models.family import Family
from kvplan.engine.models.geometry import LayerGeometry, State, StateDtype, StateKind
from kvplan.engine.models.hooks import ConfigHook, HookedDtype, declared_dtype
from kvplan.engine.models.pooling import attends_both_ways
from kvplan.engine.models.recipe import DECODER, named
from kvplan.engine.models.states import (
    attention_layer,
    by_types,
    class_in,
    split_head,
    state_layer,
    types_of,
)
from kvplan.history import state as history
from kvplan.releases import Span

if TYPE_CHECKING:
    from kvplan.checkpoint.values import ConfigDict
    from kvplan.engine.models.construction import Construction
    from kvplan.releases import Release

_QWEN_CLASSES = (
    (Span(until="0.18.1"), "Qwen3NextGatedDeltaNet"),
    (Span(since="0.19.1", until="0.21.0"), "GatedDeltaNetAttention"),
    (Span(since="0.22.1"), "QwenGatedDeltaNetAttention"),
)
_OLMO_CLASSES = (
    (Span(until="0.21.0"), "OlmoHybridGatedDeltaNet"),
    (Span(since="0.22.1"), "OlmoHybridGatedDeltaNetAttention"),
)


def delta_state(made: Construction) -> State:
    """Qwen3-Next, Qwen3.5 and OLMo Hybrid."""
    text = made.text
    dtype = StateDtype.OPTION if made.release.has(history.DELTA_STATE_DTYPE_OPTION) else StateDtype.AS_CONVOLUTION
    return State(
        kind=StateKind.DELTA,
        kernel=text.positive("linear_conv_kernel_dim"),
        heads=text.positive("linear_num_value_heads"),
        head_dim=text.positive("linear_value_head_dim"),
        key_heads=text.positive("linear_num_key_heads"),
        key_dim=text.positive("linear_key_head_dim"),
        counts_drafts=True,
        recurrent=dtype,
        checkpoints=made.entry.module != "olmo_hybrid",
    )


def delta(made: Construction) -> tuple[LayerGeometry, ...]:
    """Gated delta nets beside gated attention."""
    olmo = made.entry.module == "olmo_hybrid"
    state = delta_state(made)
    path = made.recipe.layout.replace("self_attn.attn", "linear_attn")
    layer_class = class_in(made.release, _OLMO_CLASSES if olmo else _QWEN_CLASSES)
    size = split_head(made) if olmo else None
    built = by_types(
        made,
        types_of(made, "layer_types"),
        lambda index: attention_layer(made, index, head_size=size),
        lambda index: state_layer(made, index, state, path, layer_class=layer_class),
        "layer_types",
    )
    return tuple(layer for layer in built if layer.state is not None) if not olmo and attends_both_ways(made) else built


def _qwen3_5_state_dtype(span: Span) -> ConfigHook:
    """The hook that reads `mamba_ssm_dtype`, in the releases that have it for an architecture."""

    def hook(text: ConfigDict, release: Release) -> HookedDtype | None:
        declared = declared_dtype(text, "mamba_ssm_dtype") if release.within(span) else None
        return None if declared is None else HookedDtype(declared, "Qwen3.5 reads mamba_ssm_dtype in its config")

    return ConfigHook(state_dtype=hook)


_BELOW_LANGUAGE_MODEL = named("language_model." + DECODER)

FAMILIES = (
    Family(
        name="delta",
        modules={
            **dict.fromkeys(("olmo_hybrid", "qwen3_5", "qwen3_next"), named()),
            **dict.fromkeys(
                (
                    "clef_flash",
                    "colqwen3_5",
                    "d3",
                    "interns2_mobius",
                    "interns2_preview",
                    "minicpm_ocr",
                    "minicpmv4_6",
                    "minicpmv4_7",
                    "qwen3_5:Qwen3_5ForConditionalGeneration",
                    "qwen3_5:Qwen3_5MoeForConditionalGeneration",
                ),
                _BELOW_LANGUAGE_MODEL,
            ),
        },
        layers=delta,
        drafts={
            "interns2_mobius": from_zero(MTP_LAYER, "mtp_num_hidden_layers"),
            "qwen3_5_mtp": from_zero(MTP_LAYER, "mtp_num_hidden_layers"),
            "qwen3_next_mtp": from_zero(MTP_LAYER, *NEXTN),
        },
        state=delta_state,
        hooks={
            "Qwen3_5ForConditionalGeneration": _qwen3_5_state_dtype(Span(since="0.17.1")),
            "Qwen3_5MoeForConditionalGeneration": _qwen3_5_state_dtype(Span(since="0.17.1")),
            "ColQwen3_5": _qwen3_5_state_dtype(Span(since="0.19.1")),
            "Qwen3_5ForCausalLM": _qwen3_5_state_dtype(Span(since="0.27.1")),
            "Qwen3_5MoeForCausalLM": _qwen3_5_state_dtype(Span(since="0.27.1")),
            "D3ForSequenceClassification": _qwen3_5_state_dtype(Span(since="0.33.0")),
        },
    ),
)
