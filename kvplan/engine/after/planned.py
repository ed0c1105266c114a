"""What the checks behind planning look at."""

from __future__ import annotations

from dataclasses import dataclass

from kvplan.engine.groups.grouping import CacheGroup
from kvplan.engine.layers.built import BuiltLayer
from kvplan.engine.values import Plan


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan without an error, the layers that it is for, and the groups of the whole model."""

    plan: Plan
    layers: tuple[BuiltLayer, ...]
    groups: tuple[CacheGroup, ...]
