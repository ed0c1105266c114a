"""All that sets one family of models apart, as one value.

A file of `families` gives a `Family` for every family it holds, and `families.FILES` lists the files. What a family
leaves out is as the general rule has it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kvplan.engine.models import general

if TYPE_CHECKING:
    from kvplan.engine.backends.values import BackendQuery
    from kvplan.engine.models.construction import Construction
    from kvplan.engine.models.drafting import DraftRecipe
    from kvplan.engine.models.formats import CacheFormat
    from kvplan.engine.models.geometry import LayerGeometry, State
    from kvplan.engine.models.hooks import ConfigHook
    from kvplan.engine.models.recipe import Recipes
    from kvplan.engine.models.towers import TowerRow
    from kvplan.releases import Release, Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Models that vLLM builds alike: whose classes they are, and what these build and report.

    Modules are named by their place below vLLM's model folder; `module:Class` is for one class of a module whose
    classes are unlike. What is said of classes holds for those that build their layers themselves, not for those
    that wrap another class.
    """

    name: str
    """As reports tell it."""
    modules: Mapping[str, Recipes] = field(default_factory=dict)
    """By module: how its classes name their layers, or which class they wrap."""
    layers: Callable[[Construction], tuple[LayerGeometry, ...]] = general.layers
    """The layers, in the order in which vLLM registers them. Raises Refused where vLLM does."""
    drafts: Mapping[str, DraftRecipe] = field(default_factory=dict)
    """By module: how its drafts for speculative decoding are built."""
    state: Callable[[Construction], State] | None = None
    """The state that the class itself reports (`get_mamba_state_shape_from_config`), where it keeps any."""
    caches_every_state: bool = False
    """Whether its classes can cache the state of every block (`SupportsMambaPrefixCaching`)."""
    replays_states: Span | None = None
    """The releases in which its classes can keep the latest inputs beside the state (`SupportsReplaySSM`)."""
    cache_format: Callable[[BackendQuery, Release], CacheFormat] | None = None
    """Which attention class and row format the model's own code picks; None: it asks the backend selector. Raises
    FormatRefused."""
    backend_by_head_sizes: bool = False
    """Whether its config hook picks a backend where layers differ in head size."""
    never_shares_prefixes: bool = False
    """Whether cached tokens cannot serve another request: prefix caching is off, whoever asked for it."""
    largest_item_tokens: Callable[[Construction], int | None] | None = None
    """Tokens of the largest multimodal item, where the processor says how many that are."""
    hooks: Mapping[str, ConfigHook] = field(default_factory=dict)
    """The config hooks of its architectures, by the name in the config."""
    spreads_hidden_states: bool = False
    """Whether its classes can spread their residual streams over tensor-parallel ranks (`SupportsHCSP`)."""
    towers: Mapping[str, tuple[TowerRow, ...]] = field(default_factory=dict)
    """By module: the encoders for images and sound that its classes split over ranks."""
    layers_of_one: int = 1
    """Layers that pipeline stages count for one decoder layer."""
