"""KV505: without the hybrid manager sliding-window layers keep the whole context."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.facade import connector, connectors_working_with_hybrid
from kvplan.engine.failures import HybridManagerRefused
from kvplan.engine.values import Plan
from kvplan.rules import words
from kvplan.rules.failures import said
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV505"
FLAG = "--disable-hybrid-kv-cache-manager"


def check(plan: Plan) -> Iterator[Finding]:
    """The refusal where start-up fails over it, else what it costs."""
    failed = False
    for error, _ in plan.failures(HybridManagerRefused):
        failed = True
        yield Finding(
            rule=CODE,
            severity=Severity.ERROR,
            message=f"{words.release_name(plan)} refuses the hybrid KV cache manager as it is set ({said(error)})",
            options=(FLAG,),
        )
    settings, geometry = plan.settings, plan.geometry
    if failed or settings is None or geometry is None or not settings.hybrid_manager_disabled:
        return
    sliding = [layer for layer in geometry.layers if layer.sliding_window and layer.shares_cache_of is None]
    owners = [layer for layer in geometry.layers if layer.shares_cache_of is None]
    if not sliding or len(sliding) == len(owners):
        return
    windows = sorted({layer.sliding_window for layer in sliding if layer.sliding_window})
    given = plan.launch.get("disable_hybrid_kv_cache_manager")
    cause, fix = f"{FLAG} is given", f"drop {FLAG}"
    if not given:
        cause, fix = _switched_off(plan)
    yield Finding(
        rule=CODE,
        severity=Severity.WARNING,
        message=(
            f"{cause}: {len(sliding)} of {len(owners)} layers need only a window of "
            f"{words.listed([words.number(size) for size in windows], 'or')} tokens and keep all "
            f"{words.number(settings.max_model_len)}"
        ),
        layers=tuple(sorted({layer.index for layer in sliding})),
        options=(FLAG,),
        fix=fix,
    )


def _switched_off(plan: Plan) -> tuple[str, str]:
    """What switches the manager off though nobody asked for it, and what to do about it."""
    transfer = connector(plan.launch)
    if transfer is None:
        return (
            "this launch switches the hybrid KV cache manager off",
            "drop --kv-events-config, or use a later release",
        )
    name = transfer.name or "the KV connector"
    able = connectors_working_with_hybrid(plan.release)
    if not able:
        return (
            f"{words.release_name(plan)} switches the hybrid KV cache manager off for every KV connector",
            "use a later release, or --no-disable-hybrid-kv-cache-manager with a connector that works with it",
        )
    return (
        f"{name} does not work with the hybrid KV cache manager in {words.release_name(plan)}, which is off",
        f"take a connector that does: {', '.join(able)}",
    )


RULE = Rule(
    code=CODE,
    name="hybrid-manager-off",
    severity=Severity.ERROR,
    summary="The hybrid KV cache manager is off: sliding-window layers keep the whole context.",
    explanation=(
        "The hybrid manager lets sliding-window layers free what has left their window. With "
        "`--disable-hybrid-kv-cache-manager`, with a KV connector through 0.21.0 or KV events through 0.19.1, "
        "they are treated as full attention: gemma-3-27b then needs 62 GiB instead of 18 GiB for one request "
        "of 131,072 tokens. Models that mix attention with state layers cannot start without it. Asking for "
        "it explicitly where something forbids it is refused.\n\n"
        "Drop the option, or the feature that switches the manager off."
    ),
    bad=Example(
        version="0.33.0",
        command="vllm serve google/gemma-3-27b-it --disable-hybrid-kv-cache-manager --max-model-len 32768",
    ),
    good=Example(version="0.33.0", command="vllm serve google/gemma-3-27b-it --max-model-len 32768"),
    claims=(HybridManagerRefused,),
    check=check,
)
