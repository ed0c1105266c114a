"""GLM-5.3 Flash: KDA states beside sparse latent attention whose indexer pools its keys.

The indexer keeps one key for `index_kpool` tokens and the open pool's raw keys and gates in a ring. Facts from
models/glm5next.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kvplan.engine.models import latent
from kvplan.engine.models.drafting import DraftRecipe
from kvplan.engine.models.family import Family
from kvplan.engine.models.geometry import CustomCache, Kind, LayerGeometry, Role, Slots, State, StateDtype, StateKind
from kvplan.engine.models.hooks import fp8_on_datacenter_blackwell
from kvplan.engine.models.recipe import named, wraps
from kvplan.engine.models.refusals import Refused
from kvplan.engine.models.shapes import Form
from kvplan.engine.models.states import state_layer
from kvplan.history import cache
from kvplan.history import compressed as history

if TYPE_CHECKING:
    from kvplan.engine.models.construction import Construction
    from kvplan.engine.models.drafting import DraftModel


def glm5_next_state(made: Construction) -> State:
    """The KDA state: 64 heads of 128 over 8 ranks are 8 * 128 * 128 float32 and 3 * 3,072 convolution elements."""
    text = made.text
    return State(
        kind=StateKind.KDA,
        kernel=text.positive("linear_conv_kernel_dim"),
        heads=text.positive("linear_num_heads"),
        head_dim=text.positive("linear_head_dim"),
        counts_drafts=True,
        recurrent=StateDtype.FLOAT32_OR_OPTION,
        checkpoints=made.release.has(history.GLM5_NEXT_CHECKPOINTS_STATES),
    )


def glm5_next(made: Construction) -> tuple[LayerGeometry, ...]:
    """A state or an indexed latent attention for each decoder layer, by layer_types."""
    missing = [name for name in ("mhc", "mla_use_nope") if name not in made.text]
    if missing and made.release.has(history.GLM5_NEXT_CONFIG_OF_TRANSFORMERS):
        raise Refused(
            made.architecture,
            f"'Glm5NextTextConfig' object has no attribute '{missing[0]}'",
            "AttributeError",
            "layers",
        )
    types = made.text.items("layer_types") or ()
    state = glm5_next_state(made) if "linear_attention" in types else None
    built: list[LayerGeometry] = []
    for index in range(made.count):
        if state is not None and index < len(types) and types[index] == "linear_attention":
            built.append(
                state_layer(
                    made,
                    index,
                    state,
                    "model.layers.{i}.self_attn",
                    layer_class="Glm5NextLinearAttention",
                    backend="GDN_ATTN",
                )
            )
            continue
        built += _attention(made, index)
    return tuple(built)


def glm5_next_mtp(draft: DraftModel) -> tuple[LayerGeometry, ...]:
    """Indexed latent attentions after the target's layers, whatever `layer_types` says."""
    return tuple(layer for index in draft.indices for layer in _attention(draft.made, index))


def _attention(made: Construction, index: int) -> list[LayerGeometry]:
    """Latent rows, with an indexer where the config has one."""
    sparse = "index_topk" in made.text
    row = latent.row(made, index, latent.dimensions_of(made.text, sparse=sparse))
    indexer = _indexer(made, index, made.text.optional("index_kpool") or 1) if sparse else []
    return [*indexer, replace(row, owns_indexer=sparse)]


def _indexer(made: Construction, index: int, pool: int) -> list[LayerGeometry]:
    """Pooled keys (16 tokens a row: 1,024 tokens are 64 rows of 132 bytes) and the open pool's ring."""
    width = made.text.positive("index_head_dim")
    place = made.name(index).removesuffix("attn") + "indexer"
    keys = LayerGeometry(
        name=f"{place}.k_cache",
        index=index,
        kind=Kind.OWN,
        role=Role.INDEXER,
        layer_class="Glm5NextIndexerCache",
        total_kv_heads=1,
        head_size=latent.indexer_row_bytes(width),
        custom_backend="DEEPSEEK_V32_INDEXER",
        own=CustomCache(form=Form.LATENT, storage="uint8", tokens_per_state=pool),
    )
    return [keys] if pool == 1 else [keys, _tail(made, index, place, width, pool)]


def _tail(made: Construction, index: int, place: str, width: int, pool: int) -> LayerGeometry:
    """Raw key and gate of the open pool as two heads: 16 * 2 * 128 * 2 = 8,192 bytes a request."""
    shared = made.release.has(history.KPOOL_TAIL_IS_RING)
    grows = made.release.has(history.KPOOL_TAIL_HOLDS_DRAFTS)
    return LayerGeometry(
        name=f"{place}.tail_cache",
        index=index,
        kind=Kind.OWN,
        role=Role.COMPRESSOR,
        layer_class="Glm5NextTailCache",
        total_kv_heads=2,
        head_size=width,
        head_size_v=0,
        custom_backend="KPOOL_TAIL",
        own=CustomCache(
            form=Form.RING if shared else Form.TAIL_RING,
            storage="bfloat16",
            block_size=pool,
            slots=Slots.POWER_OF_GROUPS if grows else None,
            divides_block=grows,
        ),
    )


FAMILIES = (
    Family(
        name="glm5_next",
        modules={
            "models.glm5next": named(),
            "models.glm5next:Glm5NextForConditionalGeneration": wraps("Glm5NextForCausalLM"),
        },
        layers=glm5_next,
        drafts={"models.glm5next": DraftRecipe(glm5_next_mtp)},
        state=glm5_next_state,
        hooks={
            name: fp8_on_datacenter_blackwell(name, "fp8", cache.GLM5_NEXT_AUTO_IS_FP8_ON_SM100)
            for name in ("Glm5NextForCausalLM", "Glm5NextForConditionalGeneration")
        },
    ),
)
