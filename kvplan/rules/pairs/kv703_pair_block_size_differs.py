"""KV703: prefill and decode cut the cache into blocks of different sizes."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.values import Plan
from kvplan.rules.pairs.example import together
from kvplan.rules.rule import Advice, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV703"


def check(_plan: Plan) -> Iterator[Finding]:
    """Nothing: it takes two launches."""
    return iter(())


def pair(prefill: Plan, decode: Plan) -> Iterator[Finding]:
    """At most one finding."""
    if prefill.settings is None or decode.settings is None:
        return
    first, second = prefill.settings.block_size, decode.settings.block_size
    if first == second:
        return
    divides = second % first == 0
    yield Finding(
        rule=CODE,
        severity=Severity.WARNING if divides else Severity.ERROR,
        message=(
            f"prefill uses blocks of {first} tokens and decode of {second}: "
            + ("not every connector can hand them over" if divides else "blocks cannot be handed over")
        ),
        options=("--block-size", "--kv-cache-dtype-skip-layers"),
        fix=f"give both --block-size {max(first, second)}",
    )


RULE = Rule(
    code=CODE,
    advice=Advice.ALONE,
    name="pair-block-size-differs",
    severity=Severity.ERROR,
    summary="Prefill and decode cut the cache into blocks of different sizes.",
    explanation=(
        "Decode reads the blocks that prefill has written. Where the sizes differ, the NIXL connector cuts its own "
        "blocks, which works only when the block size of decode is a multiple of that of prefill; otherwise an "
        "assertion fails at the first request. Other connectors expect equal sizes.\n\n"
        "Give both the same `--block-size`, and the same skip list, cache dtype and backend: all of them move the "
        "block size."
    ),
    bad=together(prefill="--block-size 64", decode="--block-size 32"),
    good=together(prefill="--block-size 64", decode="--block-size 64"),
    check=check,
    pair=pair,
)
