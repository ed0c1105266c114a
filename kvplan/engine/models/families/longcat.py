"""LongCat-Flash: two latent attentions in each decoder layer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kvplan.engine.models import latent
from kvplan.engine.models.drafting import DraftRecipe
from kvplan.engine.models.family import Family
from kvplan.engine.models.geometry import LayerGeometry
from kvplan.engine.models.recipe import named

if TYPE_CHECKING:
    from kvplan.engine.models.construction import Construction
    from kvplan.engine.models.drafting import DraftModel


def longcat(made: Construction) -> tuple[LayerGeometry, ...]:
    """LongCat-Flash: each decoder layer has two latent attentions, then experts that ask for a kind of zero expert."""
    missing = None if "zero_expert_type" in made.text else "the config has a zero_expert_type"
    decoders = made.text.first("num_layers", "num_hidden_layers") or 0
    dimensions = latent.dimensions_of(made.text, sparse=False)
    return tuple(
        replace(
            latent.row(made, index, dimensions, name=made.place(f"model.layers.{index}.self_attn.{half}.attn")),
            then_asserts=missing if half else None,
        )
        for index in range(decoders)
        for half in (0, 1)
    )


def longcat_mtp(draft: DraftModel) -> tuple[LayerGeometry, ...]:
    """One latent layer, numbered after both attentions of every decoder layer."""
    decoders = draft.made.text.first("num_layers", "num_hidden_layers") or 0
    dimensions = latent.dimensions_of(draft.made.text, sparse=False)
    return (latent.row(draft.made, 2 * decoders, dimensions),)


FAMILIES = (
    Family(
        name="longcat",
        modules={"longcat_flash": named(), "longcat_flash_ngram": named()},
        layers=longcat,
        drafts={"longcat_flash_mtp": DraftRecipe(longcat_mtp)},
    ),
)
