"""KV704: only one of prefill and decode uses the hybrid KV cache manager."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.values import Plan
from kvplan.rules.pairs.example import together
from kvplan.rules.rule import Advice, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV704"


def check(_plan: Plan) -> Iterator[Finding]:
    """Nothing: it takes two launches."""
    return iter(())


def pair(prefill: Plan, decode: Plan) -> Iterator[Finding]:
    """At most one finding, for models that have something for the manager to do."""
    if prefill.settings is None or decode.settings is None:
        return
    first, second = (not plan.settings.hybrid_manager_disabled for plan in (prefill, decode) if plan.settings)
    if first == second or not any(layer.sliding_window for layer in (*prefill.layers, *decode.layers)):
        return
    yield Finding(
        rule=CODE,
        severity=Severity.ERROR,
        message=(
            f"the hybrid KV cache manager is {_state(first)} for prefill and {_state(second)} for decode: blocks "
            "cannot be handed over"
        ),
        options=("--disable-hybrid-kv-cache-manager",),
        fix="give --disable-hybrid-kv-cache-manager to both or to neither",
    )


def _state(on: bool) -> str:
    return "on" if on else "off"


RULE = Rule(
    code=CODE,
    advice=Advice.ALONE,
    name="pair-hybrid-manager-differs",
    severity=Severity.ERROR,
    summary="Only one of prefill and decode uses the hybrid KV cache manager.",
    explanation=(
        "With the hybrid manager, sliding-window layers have groups and block tables of their own; without it, all "
        "layers share one. Prefill and decode must agree on it to hand over blocks. From 0.18.1 on the NIXL "
        "connector compares it when the two meet.\n\n"
        "A connector that does not support the hybrid manager switches it off by default. Give both launches the "
        "same connector, and `--disable-hybrid-kv-cache-manager` to both or to neither."
    ),
    bad=together(decode="--disable-hybrid-kv-cache-manager"),
    good=together(prefill="--disable-hybrid-kv-cache-manager", decode="--disable-hybrid-kv-cache-manager"),
    check=check,
    pair=pair,
)
