"""Gemma 3n and Gemma 4: layers that share another layer's cache, and layers of two shapes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kvplan.engine.models import arch_config, windows
from kvplan.engine.models.drafting import OWN_LAYERS, attention, from_zero
from kvplan.engine.models.family import Family
from kvplan.engine.models.geometry import LayerGeometry
from kvplan.engine.models.hooks import ConfigHook
from kvplan.engine.models.recipe import DECODER, named, wraps
from kvplan.engine.models.refusals import Refused

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvplan.engine.models.arch_config import HeadShape
    from kvplan.engine.models.construction import Construction
    from kvplan.engine.models.drafting import DraftModel


def gemma3n(made: Construction) -> tuple[LayerGeometry, ...]:
    """Gemma 3n: the last `num_kv_shared_layers` use the cache of the last two layers that own one.

    Which of the two follows from the kind: the last sliding one is the second before sharing begins.
    """
    passed = windows.by_layer_types(made.text, made.release, made.count)
    first_shared = made.count - (made.text.optional("num_kv_shared_layers") or 0)
    shape = arch_config.HeadShape(made.numbers.total_kv_heads, made.numbers.head_size)
    owners = [
        first_shared - (1 if passed[index] is None else 2) if index >= first_shared else None
        for index in range(made.count)
    ]
    return _layers(made, passed, owners, (shape,) * made.count)


def gemma4(made: Construction) -> tuple[LayerGeometry, ...]:
    """Gemma 4: full and sliding layers of different heads; the last layers share with the last of their own kind."""
    text, count = made.text, made.count
    types = text.per_layer("layer_types", count)
    if types is None:
        raise text.wrong("layer_types", "is missing; Gemma 4 needs one entry for each layer")
    passed = windows.by_layer_types(text, made.release, count)
    shared = text.optional("num_kv_shared_layers") or 0
    first_shared = count - shared if shared else count
    last_of_kind = {kind: index for index, kind in enumerate(types[:first_shared])}
    for kind in types[first_shared:count]:
        if kind not in last_of_kind:
            raise Refused(made.architecture, f"{kind!r} is not in list", "ValueError", "layers")
    owners = [last_of_kind.get(types[index]) if index >= first_shared else None for index in range(count)]
    return _layers(made, passed, owners, arch_config.gemma4_shapes(text))


VIDEO_FRAMES = 32
VIDEO_FRAME_TOKENS = 70 + 2 + 6
"""Soft tokens of a frame, its begin and end marks, and about six of a time stamp."""


def gemma4_largest_item_tokens(made: Construction) -> int | None:
    """Tokens of Gemma 4's largest multimodal item, a video of 32 frames (2,496); None for text-only models."""
    return VIDEO_FRAMES * VIDEO_FRAME_TOKENS if made.config.section("vision_config") is not None else None


def _layers(
    made: Construction,
    passed: Sequence[int | None],
    owners: Sequence[int | None],
    shapes: Sequence[HeadShape],
) -> tuple[LayerGeometry, ...]:
    built = []
    for index, owner in enumerate(owners):
        built.append(
            LayerGeometry(
                name=made.name(index),
                index=index,
                total_heads=made.numbers.total_heads,
                total_kv_heads=shapes[index].kv_heads,
                head_size=shapes[index].head_size,
                sliding_window=passed[index],
                shares_cache_of=None if owner is None or owner < 0 else made.name(owner),
            )
        )
    return tuple(built)


def gemma4_mtp(draft: DraftModel) -> tuple[LayerGeometry, ...]:
    """Gemma 4 assistants: every layer reads the cache of the target's last owner of its kind, and owns none."""
    text, release = draft.made.text, draft.made.release
    count = draft.count
    passed = windows.by_layer_types(text, release, count)
    shapes = arch_config.gemma4_shapes(text)
    owners = [layer for layer in draft.target.layers if layer.shares_cache_of is None]
    built = []
    for index in range(count):
        sliding = passed[index] is not None
        alike = [layer.name for layer in owners if (layer.sliding_window is not None) is sliding]
        built.append(
            replace(
                attention(draft, index, passed[index]),
                total_kv_heads=shapes[index].kv_heads,
                head_size=shapes[index].head_size,
                shares_cache_of=alike[-1] if alike else None,
            )
        )
    return tuple(built)


def gemma4_dspark(draft: DraftModel) -> tuple[LayerGeometry, ...]:
    """Gemma 4 DSpark: full and sliding layers of two shapes, with caches of their own."""
    passed = windows.by_layer_types(draft.made.text, draft.made.release, draft.count)
    shapes = arch_config.gemma4_shapes(draft.made.text)
    return tuple(
        replace(
            attention(draft, index, passed[index]),
            total_kv_heads=shapes[index].kv_heads,
            head_size=shapes[index].head_size,
        )
        for index in draft.indices
    )


FAMILIES = (
    Family(
        name="gemma3n",
        modules={"gemma3n": named(), "gemma3n_mm": wraps("Gemma3nForCausalLM")},
        layers=gemma3n,
    ),
    Family(
        name="gemma4",
        modules={
            "diffusion_gemma": named(),
            "gemma4": named(),
            "gemma4_mm": wraps("Gemma4ForCausalLM"),
            "gemma4_unified": wraps("Gemma4ForCausalLM"),
        },
        layers=gemma4,
        drafts={
            "gemma4_dspark": from_zero(DECODER, *OWN_LAYERS, layers=gemma4_dspark),
            "gemma4_mtp": from_zero("draft_model.layers.{i}.self_attn.attn", *OWN_LAYERS, layers=gemma4_mtp),
        },
        backend_by_head_sizes=True,
        hooks={"DiffusionGemmaForBlockDiffusion": ConfigHook(fewer_sequences=8, mixes_directions=True)},
        largest_item_tokens=gemma4_largest_item_tokens,
    ),
)
