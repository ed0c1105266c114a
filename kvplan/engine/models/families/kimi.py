"""Kimi Linear and Kimi K3: Kimi delta attention beside multi-head latent attention."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kvplan.engine.models import latent
from kvplan.engine.models.drafting import DraftRecipe, Start, own
from kvplan.engine.models.family import Family
from kvplan.engine.models.geometry import LayerGeometry, State, StateDtype
from kvplan.engine.models.recipe import DECODER, named
from kvplan.engine.models.refusals import Refused
from kvplan.engine.models.states import class_in, kda, state_layer
from kvplan.engine.models.towers import MOON, whole_on_request
from kvplan.history import state as history
from kvplan.releases import Span

if TYPE_CHECKING:
    from kvplan.engine.models.construction import Construction
    from kvplan.engine.models.fields import Fields

_CLASSES = (
    (Span(until="0.21.0"), "KimiDeltaAttention"),
    (Span(since="0.22.1"), "KimiGatedDeltaNetAttention"),
)


def _section(made: Construction) -> Fields:
    section = made.text.section("linear_attn_config")
    if section is None:
        raise made.text.wrong("linear_attn_config", "is missing; Kimi Linear needs it")
    return section


def kimi_state(made: Construction) -> State:
    """Kimi Linear and Kimi K3 as their class says it."""
    linear = _section(made)
    state = kda(
        made.release,
        linear.positive("num_heads"),
        linear.positive("head_dim"),
        linear.positive("short_conv_kernel_size"),
    )
    if made.release.has(history.KDA_STATE_DTYPE_OPTION):
        return replace(state, recurrent=StateDtype.FLOAT32_OR_OPTION)
    return state


def kimi(made: Construction) -> tuple[LayerGeometry, ...]:
    """Kimi Linear and Kimi K3: KDA beside multi-head latent attention."""
    linear = made.text.section("linear_attn_config")
    numbers = linear.members("kda_layers") if linear is not None else frozenset()
    own_latent = made.release.has(history.KIMI_LATENT_LAYER_IS_MODEL_CODE)
    if made.text.get("mla_use_nope") is not True and len(numbers) < made.count:
        raise Refused(made.architecture, "", "AssertionError", "layers")
    state = kimi_state(made) if numbers else None
    own_delta = linear is not None and bool(linear.get("use_full_rank_gate")) and own_latent
    dimensions = latent.dimensions_of(made.text, sparse=False)
    built = []
    for index in range(made.count):
        if index + 1 in numbers and state is not None and linear is not None:
            built.append(_delta(made, index, state, linear if own_delta else None))
            continue
        row = latent.row(made, index, dimensions)
        if own_latent:
            row = replace(
                row,
                name=row.name.removesuffix(".attn"),
                layer_class="MultiHeadLatentAttention",
                reads_skip_list=False,
            )
        built.append(row)
    return tuple(built)


def _delta(made: Construction, index: int, state: State, own: Fields | None) -> LayerGeometry:
    """A KDA layer: Kimi K3's own class (with its section of the config), or Kimi Linear's."""
    path = made.recipe.layout.removesuffix(".attn")
    if own is None:
        state = replace(state, recurrent=StateDtype.FLOAT32)
        return state_layer(made, index, state, path, layer_class=class_in(made.release, _CLASSES))
    state = replace(state, checkpoints="gate_lower_bound" in own)
    return state_layer(made, index, state, path, layer_class="KimiK3DeltaAttention", backend="KIMI_K3_KDA")


FAMILIES = (
    Family(
        name="kimi",
        modules={
            "kimi_linear": named(),
            "models.kimi_k3": named(),
            "models.kimi_k3:KimiK3ForConditionalGeneration": named("language_model." + DECODER),
        },
        layers=kimi,
        drafts={
            "models.kimi_k3": DraftRecipe(latent.dense_draft),
            "models.kimi_k3.nvidia.dspark_mla": own(latent.dense_draft, Start.TARGET),
        },
        state=kimi_state,
        towers={"models.kimi_k3": whole_on_request(MOON)},
        replays_states=Span(since="0.29.0"),
    ),
)
