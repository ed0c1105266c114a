"""openPangu: latent attention, attention behind learned tokens, or windows by a list."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kvplan.engine.models import general, latent, windows
from kvplan.engine.models.drafting import DraftRecipe
from kvplan.engine.models.family import Family
from kvplan.engine.models.geometry import Kind, LayerGeometry
from kvplan.engine.models.recipe import named

if TYPE_CHECKING:
    from kvplan.engine.models.construction import Construction


def openpangu(made: Construction) -> tuple[LayerGeometry, ...]:
    """openPangu: latent if the config has all four dimensions, else heads, behind learned tokens if it has those."""
    names = ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "kv_lora_rank")
    if all(name in made.text for name in names):
        return latent.rows(made, sparse=False)
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
                custom_backend="FLASH_ATTN_DIFFKV",
            )
            for layer in general.uniform(made, (None,) * made.count, head_size=size)
        )
    return general.uniform(made, windows.interleaved(made.text, made.count))


FAMILIES = (
    Family(
        name="openpangu",
        modules={"openpangu": named()},
        layers=openpangu,
        drafts={"openpangu_mtp": DraftRecipe(latent.draft)},
    ),
)
