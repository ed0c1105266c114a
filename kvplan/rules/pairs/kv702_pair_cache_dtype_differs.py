"""KV702: prefill and decode keep the cache in different dtypes."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.values import Plan
from kvplan.rules.pairs.example import together
from kvplan.rules.rule import Advice, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV702"


def check(_plan: Plan) -> Iterator[Finding]:
    """Nothing: it takes two launches."""
    return iter(())


def pair(prefill: Plan, decode: Plan) -> Iterator[Finding]:
    """At most one finding: on what the cache dtypes come to, not on how they are written."""
    if prefill.settings is None or decode.settings is None:
        return
    first, second = (_dtype(plan) for plan in (prefill, decode))
    if first != second:
        yield Finding(
            rule=CODE,
            severity=Severity.ERROR,
            message=f"prefill keeps the cache as {first} and decode as {second}: blocks cannot be handed over",
            options=("--kv-cache-dtype",),
            fix="give both the same --kv-cache-dtype",
        )


def _dtype(plan: Plan) -> str:
    settings = plan.settings
    assert settings is not None
    return settings.model_dtype if settings.cache_dtype_after_load == "auto" else settings.cache_dtype_after_load


RULE = Rule(
    code=CODE,
    advice=Advice.ALONE,
    name="pair-cache-dtype-differs",
    severity=Severity.ERROR,
    summary="Prefill and decode keep the cache in different dtypes.",
    explanation=(
        "A block that prefill has written is copied byte for byte into the cache of decode. The NIXL connector "
        "compares the cache dtypes when the two meet and refuses the transfer when they differ; start-up of both "
        "goes through.\n\n"
        "Give both the same `--kv-cache-dtype`. `auto` is not the same everywhere: it depends on the GPU and on the "
        "checkpoint."
    ),
    bad=together(decode="--kv-cache-dtype fp8"),
    good=together(prefill="--kv-cache-dtype fp8", decode="--kv-cache-dtype fp8"),
    check=check,
    pair=pair,
)
