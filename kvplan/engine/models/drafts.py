"""The layers that a draft for speculative decoding owns: MTP modules, EAGLE heads, DFlash and DSpark drafters."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kvplan.engine.models import arch_config, families, registered
from kvplan.engine.models.construction import Construction
from kvplan.engine.models.drafting import DraftModel
from kvplan.engine.models.fields import Fields
from kvplan.engine.models.geometry import LayerGeometry, Role
from kvplan.engine.models.recipe import Recipe
from kvplan.engine.models.refusals import Refused, Unplaceable
from kvplan.engine.models.unplaceable import REASONS

if TYPE_CHECKING:
    from kvplan.checkpoint.values import Checkpoint
    from kvplan.engine.models.geometry import ModelGeometry
    from kvplan.releases import Release


def supports_pipeline(checkpoint: Checkpoint, release: Release) -> bool:
    """Whether the draft's class has pipeline parallelism, which older releases ask of it too."""
    name = checkpoint.architectures[0] if checkpoint.architectures else ""
    entry = registered.lookup(name, release)
    return entry is None or entry.pipelines


def build(
    checkpoint: Checkpoint, release: Release, target: ModelGeometry, *, stage_layers: int, tokens: int
) -> tuple[LayerGeometry, ...]:
    """The layers of the draft whose rewritten config is `checkpoint`, with the role of a draft.

    Raises Refused where the release knows no such draft class, Unplaceable where kvplan cannot say which caches it
    has.
    """
    name = checkpoint.architectures[0] if checkpoint.architectures else ""
    entry = registered.lookup(name, release)
    if entry is None:
        raise Refused(name, f"Model architectures {list(checkpoint.architectures)} are not supported for now.")
    found = families.draft_of(entry)
    if found is None:
        raise Unplaceable(name, REASONS["draft_unread"])
    _, recipe = found
    config = Fields(checkpoint.config, checkpoint.file)
    text = Fields(checkpoint.text_config, checkpoint.file)
    made = Construction(
        release=release,
        architecture=name,
        source=name,
        entry=entry,
        recipe=Recipe(layout=recipe.layout),
        config=config,
        text=text,
        numbers=arch_config.numbers(config, text, release),
        use_mla=target.use_mla,
    )
    draft = DraftModel(made, recipe, target, stage_layers, tokens)
    layers = recipe.layers(draft)
    if any(layer.total_kv_heads == 0 or layer.head_size == 0 for layer in layers):
        raise Unplaceable(name, "its config does not give the heads of its layers and their size")
    return tuple(replace(layer, role=Role.DRAFT) for layer in layers)
