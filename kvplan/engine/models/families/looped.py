"""Decoders that run their layers more than once, with a cache for each pass: LoopCoder, Ouro, Dory, HRM-Text.

The cache of pass p over layer i carries the number p * layers + i in its name, which is the number a skip list means;
the layer itself stays where it is in the pipeline.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kvplan.engine.models import general, windows
from kvplan.engine.models.family import Family
from kvplan.engine.models.geometry import LayerGeometry
from kvplan.engine.models.recipe import named

if TYPE_CHECKING:
    from kvplan.engine.models.construction import Construction

LOOPCODER_LOOPS, LOOPCODER_WINDOW = 2, 64
OURO_STEPS = 4
"""What the classes assume where the config is silent."""


def loopcoder(made: Construction) -> tuple[LayerGeometry, ...]:
    """IQuest LoopCoder: the first pass sees all of the text, the later ones a window."""
    text = made.text
    loops = text.optional("loop_num") or LOOPCODER_LOOPS
    window = text.optional("loop_window_size") or LOOPCODER_WINDOW
    size = text.positive("hidden_size") // made.numbers.total_heads
    first = general.uniform(made, (None,) * made.count, head_size=size)
    return tuple(
        replace(_again(made, layer, loop), sliding_window=window if loop else None)
        for layer in first
        for loop in range(loops)
    )


def ouro(made: Construction) -> tuple[LayerGeometry, ...]:
    """Ouro: as many passes as `total_ut_steps`, all of them over the whole text."""
    steps = made.text.optional("total_ut_steps") or OURO_STEPS
    first = general.uniform(made, (None,) * made.count)
    return tuple(_again(made, layer, step) for layer in first for step in range(steps))


def dory(made: Construction) -> tuple[LayerGeometry, ...]:
    """Dory: layers in the middle recur; `mlp` layers have no attention. Passes may share one cache."""
    text, count = made.text, made.count
    types = text.per_layer("layer_types", count) or ()
    loops = text.positive("n_recurrent_loops") if text.get("recurrent_kv_cache_mode") == "per_loop" else 1
    start = text.whole("n_input_layers")
    recurring = range(start, start + text.whole("n_recurrent_layers"))
    passed = windows.by_layer_types(text, made.release, count)
    return tuple(
        _again(made, layer, loop)
        for layer in general.uniform(made, passed)
        if not types or types[layer.index] != "mlp"
        for loop in range(loops if layer.index in recurring else 1)
    )


def hrm_text(made: Construction) -> tuple[LayerGeometry, ...]:
    """HRM-Text: a fast and a slow stack of equal length, run in nested cycles; every head has its own key and value.

    The fast stack runs `L_cycles` times in each of `H_cycles`, then the slow one once.
    """
    text = made.text
    slow, fast = text.positive("H_cycles"), text.positive("L_cycles")
    depth, heads = text.positive("num_layers_per_stack"), made.numbers.total_heads
    turns = {
        "L": [high * (fast + 1) + low for high in range(slow) for low in range(fast)],
        "H": [high * (fast + 1) + fast for high in range(slow)],
    }
    return tuple(
        LayerGeometry(
            name=made.place(f"model.{stack}_module.layers.{step * depth + layer}.self_attn.attn"),
            index=layer,
            layer_class="PrefillPrefixLMAttention",
            total_heads=heads,
            total_kv_heads=heads,
            head_size=made.numbers.head_size,
        )
        for stack, steps in turns.items()
        for layer in range(depth)
        for step in steps
    )


def _again(made: Construction, layer: LayerGeometry, turn: int) -> LayerGeometry:
    """The cache of pass `turn` over `layer`."""
    return replace(layer, name=made.name(turn * made.count + layer.index))


FAMILIES = (
    Family(name="dory", modules={"dory": named("backbone.layers.{i}.mixer.attn")}, layers=dory),
    Family(name="hrm_text", modules={"hrm_text": named()}, layers=hrm_text, never_shares_prefixes=True),
    Family(name="loopcoder", modules={"iquest_loopcoder": named()}, layers=loopcoder),
    Family(name="ouro", modules={"ouro": named()}, layers=ouro),
)
