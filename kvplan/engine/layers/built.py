"""What building the layers gives: each layer as the model's code constructs it, and what that showed."""

from __future__ import annotations

from dataclasses import dataclass

from kvplan.engine.backends.values import BackendQuery
from kvplan.engine.models.geometry import LayerGeometry
from kvplan.engine.states.tensors import BuiltState
from kvplan.engine.values import BackendChoice, Skip, StartupError, Step


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltLayer:
    """A constructed layer: what the spec is made from. Head counts are those of one rank."""

    geometry: LayerGeometry
    rank: int
    cache_dtype: str | None
    storage: str
    """Dtype of the cache's elements; of a state, that of its first tensor."""
    quant_mode: str | None
    backend: str
    query: BackendQuery
    sliding_window: int | None
    num_kv_heads: int
    skipped: bool
    run_cache_dtype: str
    """The launch-wide cache dtype once this rank's layers were built."""
    page_of: BuiltLayer | None = None
    """The attention whose page a ring fills."""
    asked_first: str | None = None
    """A backend that is asked for a block size before the layer's own."""
    state: BuiltState | None = None


@dataclass(frozen=True, slots=True)
class Built:
    """All layers of all ranks, and what building them showed."""

    layers: tuple[BuiltLayer, ...]
    cache_dtype: str
    """The launch-wide cache dtype that the first rank ended with."""
    skip: Skip
    backends: tuple[BackendChoice, ...]
    steps: tuple[Step, ...]
    error: StartupError | None = None
    of_draft: bool = False
    """Whether `error` is about the draft, which vLLM builds after all of the target."""
    whole_stages: int = 0
    """Pipeline stages, from the first on, that were built before one refused."""
    keepless: tuple[tuple[str, BackendQuery], ...] = ()
    """Backends of attention that keeps nothing, each with what it was asked."""
