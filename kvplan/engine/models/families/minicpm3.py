"""MiniCPM3: latent projections, but keys and values cached per head."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvplan.engine.models import general
from kvplan.engine.models.family import Family
from kvplan.engine.models.geometry import LayerGeometry
from kvplan.engine.models.recipe import named

if TYPE_CHECKING:
    from kvplan.engine.models.construction import Construction


def expanded(made: Construction) -> tuple[LayerGeometry, ...]:
    """MiniCPM3: latent projections, but keys and values cached per head at full width."""
    size = made.text.whole("qk_nope_head_dim") + made.text.whole("qk_rope_head_dim")
    passed = (None,) * made.count
    return general.uniform(made, passed, kv_heads=made.numbers.total_heads, head_size=size)


FAMILIES = (Family(name="expanded", modules={"minicpm3": named()}, layers=expanded),)
