"""KV504: memory in the pool that no token can use."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.values import Plan
from kvplan.rules import words
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV504"


def check(plan: Plan) -> Iterator[Finding]:
    """One finding about slots that stay empty in smaller groups, one about padded pages."""
    yield from _empty_slots(plan)
    padded = [layer for layer in plan.layers if layer.page_bytes > layer.unpadded_page_bytes]
    if padded:
        worst = max(padded, key=lambda layer: layer.page_bytes / layer.unpadded_page_bytes)
        indices = tuple(sorted({layer.index for layer in padded}))
        lost = words.percent(worst.page_bytes - worst.unpadded_page_bytes, worst.page_bytes)
        yield Finding(
            rule=CODE,
            severity=Severity.NOTE,
            message=(
                f"pages of {words.layers(indices)} are padded from {words.number(worst.unpadded_page_bytes)} to "
                f"{words.number(worst.page_bytes)} bytes: {lost} of each page holds no token"
            ),
            layers=indices,
        )


def _empty_slots(plan: Plan) -> Iterator[Finding]:
    """Groups of one pool have one size; a shorter group leaves slots empty."""
    lengths = [len(group.layers) for group in plan.groups]
    if len(lengths) < 2 or len({group.page_bytes for group in plan.groups}) > 1 or plan.settings is None:
        return
    if plan.settings.pipeline_parallel > 1:
        return
    slots = max(lengths) * len(lengths)
    empty = slots - sum(lengths)
    if empty:
        yield Finding(
            rule=CODE,
            severity=Severity.NOTE,
            message=(
                f"{len(lengths)} groups of up to {max(lengths)} layers share the pool: "
                f"{words.counted(empty, 'slot')} "
                f"of {slots} {'stays' if empty == 1 else 'stay'} empty ({words.percent(empty, slots)} of the pool)"
            ),
        )


RULE = Rule(
    code=CODE,
    name="padding-waste",
    severity=Severity.NOTE,
    summary="Part of the pool holds no token: empty slots in groups, or padded pages.",
    explanation=(
        "Layers of several kinds share one pool. vLLM makes groups of equal size; where the layers do not "
        "divide evenly, some groups have empty slots that are allocated all the same (gemma-3-27b: 52 "
        "sliding-window and 10 full layers make 7 groups of 10 with 8 empty slots). vLLM's log says `Add 8 "
        "padding layers, may waste at most …`. Pages that cannot be made equal otherwise are padded.\n\n"
        "It follows from the model; a different cache dtype or skip list can change it."
    ),
    bad=Example(version="0.33.0", command="vllm serve google/gemma-3-27b-it"),
    good=Example(version="0.33.0", command="vllm serve openai/gpt-oss-120b"),
    check=check,
)
