"""KV705: prefill and decode use different attention backends."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.values import Plan
from kvplan.rules.pairs.example import together
from kvplan.rules.rule import Advice, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV705"


def check(_plan: Plan) -> Iterator[Finding]:
    """Nothing: it takes two launches."""
    return iter(())


def pair(prefill: Plan, decode: Plan) -> Iterator[Finding]:
    """At most one finding, on the backend of the first layer, whose name the connector compares."""
    if not prefill.layers or not decode.layers:
        return
    first, second = prefill.layers[0].backend, decode.layers[0].backend
    if first != second and first and second:
        yield Finding(
            rule=CODE,
            severity=Severity.ERROR,
            message=f"prefill uses {first} and decode {second}: they refuse to hand over caches",
            options=("--attention-backend", "--block-size", "--kv-cache-dtype"),
            fix=f"give both --attention-backend {second}, if it is possible on both",
        )


RULE = Rule(
    code=CODE,
    advice=Advice.ALONE,
    name="pair-backend-differs",
    severity=Severity.ERROR,
    summary="Prefill and decode use different attention backends.",
    explanation=(
        "Backends lay out the cache each in its own way. The NIXL connector compares the backend's name when "
        "prefill and decode meet and refuses the transfer when it differs; start-up of both goes through.\n\n"
        "Different GPUs, block sizes or cache dtypes lead to different backends. Give both the same "
        "`--attention-backend`."
    ),
    bad=together(decode="--attention-backend TRITON_ATTN"),
    good=together(prefill="--attention-backend TRITON_ATTN", decode="--attention-backend TRITON_ATTN"),
    check=check,
    pair=pair,
)
