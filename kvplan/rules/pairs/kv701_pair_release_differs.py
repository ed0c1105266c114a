"""KV701: prefill and decode run different vLLM releases."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.values import Plan
from kvplan.rules.pairs.example import together
from kvplan.rules.rule import Advice, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV701"


def check(_plan: Plan) -> Iterator[Finding]:
    """Nothing: it takes two launches."""
    return iter(())


def pair(prefill: Plan, decode: Plan) -> Iterator[Finding]:
    """At most one finding."""
    if prefill.release.name != decode.release.name:
        yield Finding(
            rule=CODE,
            severity=Severity.ERROR,
            message=(
                f"prefill runs vLLM {prefill.release.name} and decode vLLM {decode.release.name}: they refuse to hand "
                "over caches"
            ),
            fix="run both from one image",
        )


RULE = Rule(
    code=CODE,
    advice=Advice.ALONE,
    name="pair-release-differs",
    severity=Severity.ERROR,
    summary="Prefill and decode run different vLLM releases.",
    explanation=(
        "The NIXL connector compares vLLM's version first when prefill and decode meet, and refuses the transfer "
        "when they differ. Start-up of both goes through; the first request fails.\n\n"
        "Run both from one image."
    ),
    bad=together(releases=("0.32.0", "0.33.0")),
    good=together(),
    check=check,
    pair=pair,
)
