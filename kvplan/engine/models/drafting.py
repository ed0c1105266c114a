"""What drafts for speculative decoding are built from, and the rule that most of them follow.

A draft is built beside the target, under the target's model config, on the last pipeline stage. Its layers are
numbered after the target's (so that skip tokens reach them by those numbers), but for families that number them from
0. Sources: the `*_mtp`, `*_eagle*`, `*_dflash*` and `*_dspark*` modules of vLLM's model folder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from kvplan.engine.models import windows
from kvplan.engine.models.geometry import LayerGeometry
from kvplan.engine.models.recipe import DECODER
from kvplan.engine.models.refusals import Refused
from kvplan.history import speculation as history

if TYPE_CHECKING:
    from kvplan.engine.models.construction import Construction
    from kvplan.engine.models.fields import Fields
    from kvplan.engine.models.geometry import ModelGeometry

NEXTN = ("num_nextn_predict_layers",)
OWN_LAYERS = ("num_hidden_layers",)
"""Fields with the number of a draft's layers: beside the target's in one config, or in a config of its own."""

MTP_LAYER = "mtp.layers.{i}.self_attn.attn"


class Start(StrEnum):
    """How a draft numbers its layers."""

    ZERO = "zero"
    """From 0, whatever the target."""
    TARGET = "target"
    """After the last decoder layer of the target."""
    STAGE = "stage"
    """After as many layers as the draft's own pipeline stage has of the target."""
    TARGET_OR_STAGE = "target or stage"
    """After the target's, in older releases after those of the draft's own stage."""


@dataclass(frozen=True, slots=True)
class DraftModel:
    """A draft's construction: the class, its config and the target it is built beside."""

    made: Construction
    recipe: DraftRecipe
    target: ModelGeometry
    stage_layers: int
    """Layers of the target on the draft's pipeline stage."""
    tokens: int
    """num_speculative_tokens."""

    @property
    def count(self) -> int:
        """Layers of the draft."""
        found = self.made.text.first(*self.recipe.count)
        if found is None:
            found = self.made.config.first(*self.recipe.count)
        if found is None:
            found = self.recipe.default_count
        if found is None:
            name = self.recipe.count[0]
            raise Refused(self.made.architecture, f"object has no attribute '{name}'", "AttributeError", "layers")
        return found

    @property
    def start(self) -> int:
        """The number of the draft's first layer."""
        whole = self.target.num_layers
        match self.recipe.start:
            case Start.ZERO:
                return 0
            case Start.TARGET:
                return whole
            case Start.STAGE:
                return self.stage_layers
        return whole if self.made.release.has(history.DRAFT_NAMES_COUNT_WHOLE_TARGET) else self.stage_layers

    @property
    def indices(self) -> range:
        """The numbers of the draft's layers."""
        return range(self.start, self.start + self.count)


def attention(draft: DraftModel, index: int, window: int | None = None) -> LayerGeometry:
    """An ordinary attention layer of the draft's model-level heads."""
    numbers = draft.made.numbers
    return LayerGeometry(
        name=draft.made.name(index),
        index=index,
        total_heads=numbers.total_heads,
        total_kv_heads=numbers.total_kv_heads,
        head_size=numbers.head_size,
        sliding_window=window,
    )


def layers(draft: DraftModel) -> tuple[LayerGeometry, ...]:
    """Attention layers that pass no window."""
    return tuple(attention(draft, index) for index in draft.indices)


def by_layer_types(draft: DraftModel) -> tuple[LayerGeometry, ...]:
    """Attention layers that follow the draft's own `layer_types`, counted from its first layer."""
    passed = windows.by_layer_types(draft.made.text, draft.made.release, draft.count)
    return tuple(attention(draft, index, passed[index - draft.start]) for index in draft.indices)


def none(_: DraftModel) -> tuple[LayerGeometry, ...]:
    """A draft without attention."""
    return ()


@dataclass(frozen=True, slots=True)
class DraftRecipe:
    """How the layers of one draft module are built and named."""

    layers: Callable[[DraftModel], tuple[LayerGeometry, ...]] = layers
    """Raises Refused where vLLM does."""
    layout: str = DECODER
    """Module prefix of draft layer `{i}`'s attention."""
    start: Start = Start.TARGET
    count: tuple[str, ...] = NEXTN
    """Fields of the draft's config with its number of layers; the first that is there counts."""
    default_count: int | None = None
    """What stands for a missing count; None where the model code needs the field."""
    fields: Callable[[Fields], Mapping[str, object]] | None = None
    """The fields that the draft's own rewriting of its target's config sets, its number of layers among them. Raises
    Refused."""


def own(layers: Callable[[DraftModel], tuple[LayerGeometry, ...]], start: Start = Start.TARGET_OR_STAGE) -> DraftRecipe:
    """A draft with a config of its own."""
    return DraftRecipe(layers, start=start, count=OWN_LAYERS)


def from_zero(
    layout: str,
    *count: str,
    layers: Callable[[DraftModel], tuple[LayerGeometry, ...]] = layers,
    default_count: int = 1,
) -> DraftRecipe:
    """A draft that numbers its layers from 0."""
    return DraftRecipe(layers, layout, Start.ZERO, count, default_count)
