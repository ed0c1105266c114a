"""Nemotron-H and Nemotron 3: Mamba 2 mixers, attention, and layers without a cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvplan.engine.models.drafting import NEXTN, attention, from_zero
from kvplan.engine.models.family import Family
from kvplan.engine.models.geometry import LayerGeometry, State
from kvplan.engine.models.hooks import ConfigHook, HookedDtype, declared_dtype
from kvplan.engine.models.recipe import named, wraps
from kvplan.engine.models.states import attention_layer, mamba2, state_layer
from kvplan.history import state as history
from kvplan.releases import Span

if TYPE_CHECKING:
    from kvplan.checkpoint.values import ConfigDict
    from kvplan.engine.models.construction import Construction
    from kvplan.engine.models.drafting import DraftModel
    from kvplan.releases import Release


def nemotron_h_state(made: Construction) -> State:
    """Nemotron-H and Nemotron 3."""
    text = made.text
    heads, head_dim = text.positive("mamba_num_heads"), text.positive("mamba_head_dim")
    return mamba2(
        made.release,
        width=heads * head_dim,
        groups=text.whole("n_groups"),
        heads=heads,
        head_dim=head_dim,
        state_size=text.positive("ssm_state_size"),
        kernel=text.positive("conv_kernel"),
    )


def nemotron_h(made: Construction) -> tuple[LayerGeometry, ...]:
    """Nemotron-H: a pattern of mixers (M), attention (*), and layers without a cache (- and E)."""
    pattern = made.text.text("hybrid_override_pattern")
    if pattern is None:
        raise made.text.wrong("hybrid_override_pattern", "is missing; Nemotron-H needs a letter for each layer")
    state = nemotron_h_state(made)
    built = []
    for index, letter in enumerate(pattern):
        if letter == "*":
            built.append(attention_layer(made, index))
        elif letter == "M":
            built.append(state_layer(made, index, state, "model.layers.{i}.mixer"))
    return tuple(built)


def nemotron_h_mtp(draft: DraftModel) -> tuple[LayerGeometry, ...]:
    """Nemotron-H: the attention layers (`*`) of `mtp_hybrid_override_pattern`, numbered from 0."""
    text = draft.made.text
    pattern = text.get("mtp_hybrid_override_pattern")
    if pattern is None:
        words = {"attention": "*", "moe": "E", "mamba": "M"}
        pattern = "".join(words.get(str(kind), "?") for kind in text.items("mtp_layers_block_type") or ())
    if not isinstance(pattern, str) or not pattern:
        raise text.wrong("mtp_hybrid_override_pattern", "is missing; the MTP layers are built from it")
    return tuple(attention(draft, index) for index, kind in enumerate(pattern) if kind == "*")


def _state_dtype(text: ConfigDict, release: Release) -> HookedDtype:
    declared = declared_dtype(text, "mamba_ssm_cache_dtype")
    if declared is not None:
        return HookedDtype(declared, "Nemotron-H reads mamba_ssm_cache_dtype in its config")
    default = "float32" if release.has(history.NEMOTRON_STATE_FLOAT32) else "float16"
    return HookedDtype(default, "Nemotron-H's default", history.NEMOTRON_STATE_FLOAT32)


def _vl_state_dtype(text: ConfigDict, release: Release) -> HookedDtype | None:
    return _state_dtype(text, release) if release.has(history.NEMOTRON_VL_STATE_DTYPE_FROM_CONFIG) else None


FAMILIES = (
    Family(
        name="nemotron_h",
        modules={"nano_nemotron_vl": wraps("NemotronHForCausalLM"), "nemotron_h": named("model.layers.{i}.mixer.attn")},
        layers=nemotron_h,
        drafts={"nemotron_h_mtp": from_zero("mtp.layers.{i}.mixer.attn", *NEXTN, layers=nemotron_h_mtp)},
        state=nemotron_h_state,
        hooks={
            "NemotronHForCausalLM": ConfigHook(state_dtype=_state_dtype),
            "NemotronHPuzzleForCausalLM": ConfigHook(state_dtype=_state_dtype),
            "NemotronH_Nano_VL_V2": ConfigHook(state_dtype=_vl_state_dtype),
        },
        caches_every_state=True,
        replays_states=Span(since="0.27.1"),
    ),
)
