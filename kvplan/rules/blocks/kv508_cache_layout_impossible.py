"""KV508: a memory layout of the cache that the model's layers cannot all have."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.failures import CacheLayoutImpossible
from kvplan.engine.values import Plan
from kvplan.rules import words
from kvplan.rules.cache.attention import DTYPE_FLAG
from kvplan.rules.failures import said
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV508"
VARIABLE = "VLLM_KV_CACHE_LAYOUT"


def check(plan: Plan) -> Iterator[Finding]:
    """At most one finding."""
    for error, facts in plan.failures(CacheLayoutImpossible):
        asked = facts.requested or plan.launch.environment.get(VARIABLE)
        which = f"{VARIABLE}={asked} is not possible" if asked else "no memory layout of the cache is possible"
        yield Finding(
            rule=CODE,
            severity=Severity.ERROR,
            message=f"{which} for this model's layers in {words.release_name(plan)} ({said(error)})",
            options=(VARIABLE,) if asked else ("--attention-backend",),
            fix=f"drop {VARIABLE}" if asked else _fix(plan),
        )


def _fix(plan: Plan) -> str:
    """One backend for all layers, where the cache dtype leaves the choice."""
    backends = list(dict.fromkeys(layer.backend for layer in plan.layers if layer.backend is not None))
    if "TURBOQUANT" in backends and len(backends) > 1:
        others = words.listed([name for name in backends if name != "TURBOQUANT"])
        return f"pass {DTYPE_FLAG} fp8: TURBOQUANT and the boundary layers' {others} share no layout on this GPU"
    return "choose one backend for all layers with --attention-backend"


RULE = Rule(
    code=CODE,
    name="cache-layout-impossible",
    severity=Severity.ERROR,
    summary="The memory layout asked for does not suit all layers of the model.",
    explanation=(
        "From 0.29.0 on all layers share one memory layout, named by the order of its dimensions: layers (L), "
        "blocks (B), heads (H), tokens (N), content (C). Each attention backend lists the layouts it can "
        "read; layers with different pages (quantised beside skipped ones, sliding windows beside full "
        "attention) need a layout in which a page is one run of bytes. `VLLM_KV_CACHE_LAYOUT` with another "
        "layout, or with a word that is none, stops start-up.\n\n"
        "Leave the variable out: vLLM takes the first layout that all layers can have."
    ),
    since="0.29.0",
    bad=Example(
        version="0.33.0",
        command=(
            "VLLM_KV_CACHE_LAYOUT=BHLNC vllm serve openai/gpt-oss-120b --kv-cache-dtype fp8 "
            "--kv-cache-dtype-skip-layers sliding_window"
        ),
    ),
    good=Example(
        version="0.33.0",
        command=("vllm serve openai/gpt-oss-120b --kv-cache-dtype fp8 --kv-cache-dtype-skip-layers sliding_window"),
    ),
    claims=(CacheLayoutImpossible,),
    check=check,
)
