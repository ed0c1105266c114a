"""Unlimited-OCR: generated tokens see the whole prompt and a window of what was generated."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kvplan.engine.models import general
from kvplan.engine.models.family import Family
from kvplan.engine.models.geometry import Kind, LayerGeometry
from kvplan.engine.models.hooks import ConfigHook
from kvplan.engine.models.recipe import DECODER, named

if TYPE_CHECKING:
    from kvplan.engine.models.construction import Construction

RSWA_WINDOW = 128
"""Tokens of the window of Unlimited-OCR where the config does not say."""


def unlimited_ocr(made: Construction) -> tuple[LayerGeometry, ...]:
    """Full attention over the prompt, and the window of the config over what is generated."""
    window = made.config.optional("rswa_window") or RSWA_WINDOW
    return tuple(
        replace(layer, kind=Kind.RSWA, layer_class="RSWAAttention", rswa_window=window)
        for layer in general.uniform(made, (None,) * made.count)
    )


FAMILIES = (
    Family(
        name="unlimited_ocr",
        modules={"unlimited_ocr": named("language_model." + DECODER)},
        layers=unlimited_ocr,
        never_shares_prefixes=True,
        hooks={"UnlimitedOCRForCausalLM": ConfigHook(masks_recent_output=True)},
    ),
)
