"""What format, storage and backend the cache modules of a model's own code settle on.

Such models do not ask the backend selector: their code picks an attention class by GPU and option, and the class
decides the format of the rows. The rule is their family's `cache_format`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from kvplan.engine.backends.values import BackendQuery
from kvplan.engine.failures import InvalidValue
from kvplan.engine.models.formats import CacheFormat, FormatRefused
from kvplan.engine.models.geometry import CustomCache, LayerGeometry
from kvplan.engine.models.shapes import Form
from kvplan.engine.stop import stop
from kvplan.engine.values import Stage
from kvplan.releases import Behaviour, Release


@dataclass(frozen=True, slots=True)
class Settled:
    """The launch-wide cache dtype, storage dtype and backend that one module ends up with."""

    cache_dtype: str
    storage: str
    backend: str
    own: CustomCache
    behaviour: Behaviour | None = None
    asked_first: str | None = None
    """The attention's backend, where it registers before this module."""


def settle(
    rule: Callable[[BackendQuery, Release], CacheFormat] | None,
    layer: LayerGeometry,
    query: BackendQuery,
    release: Release,
) -> Settled:
    """The format of one module of a family with `rule`. Raises StartupStops where that refuses the cache dtype."""
    own = layer.own
    assert own is not None
    storage = query.dtype if own.storage is None else own.storage
    if rule is None or not own.follows_format:
        return Settled(query.run_dtype, storage, layer.custom_backend or "", own)
    try:
        chosen = rule(query, release)
    except FormatRefused as refused:
        raise stop(
            Stage.LAYERS,
            InvalidValue(option=refused.option, value=refused.value, accepted=refused.accepted, layer=layer.name),
            str(refused),
            exception=refused.exception,
        ) from None
    return Settled(
        chosen.cache_dtype,
        storage if own.storage is not None else chosen.storage,
        layer.custom_backend or chosen.backend,
        _formatted(own, chosen),
        chosen.behaviour,
        chosen.backend if own.behind_attention else None,
    )


def _formatted(own: CustomCache, chosen: CacheFormat) -> CustomCache:
    """The cache with the packed row and alignment that the format brings for this GPU."""
    if not chosen.row_bytes and chosen.alignment is None:
        return own
    return replace(
        own,
        packed_row_bytes=chosen.row_bytes.get(own.form) if own.storage is None else own.packed_row_bytes,
        packed_alignment=chosen.alignment,
        stride=chosen.stride if own.form is Form.WINDOW_LATENT else 1,
    )
