"""KV203: a skip list on a cache that is not quantised."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.facade import is_quantised
from kvplan.engine.values import Plan
from kvplan.launch.changing import Change
from kvplan.rules import words
from kvplan.rules.cache.attention import DTYPE_FLAG, SKIP_FLAG, quantised_layers
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV203"


def check(plan: Plan) -> Iterator[Finding]:
    """At most one finding."""
    settings = plan.settings
    if settings is None or not plan.skip.tokens or plan.geometry is None or not plan.geometry.layers:
        return
    dtypes = (settings.cache_dtype, settings.cache_dtype_after_load)
    if any(is_quantised(dtype) for dtype in dtypes) or quantised_layers(plan):
        return
    stored = settings.model_dtype if settings.cache_dtype == "auto" else settings.cache_dtype
    if settings.requested_cache_dtype == "auto":
        why = f"{DTYPE_FLAG} auto resolves to {stored}, the model's own dtype"
    else:
        why = f"{DTYPE_FLAG} {settings.requested_cache_dtype} stores every layer as {stored}"
    yield Finding(
        rule=CODE,
        severity=Severity.WARNING,
        message=f"the skip list {words.tokens(plan.skip.tokens)} has no effect: {why}, so no layer is quantised",
        options=(SKIP_FLAG, DTYPE_FLAG),
        changes=(
            Change(values=(("kv_cache_dtype", "fp8"),)),
            Change(without=("kv_cache_dtype_skip_layers",)),
        ),
    )


RULE = Rule(
    code=CODE,
    name="skip-list-without-quantisation",
    severity=Severity.WARNING,
    summary="A skip list is given, but the cache is not quantised: it has no effect.",
    explanation=(
        "The skip list names layers that keep the model's own dtype while the others are quantised. Without a "
        "quantised `--kv-cache-dtype` there is nothing to skip. `auto` means the model's dtype unless the "
        "checkpoint declares a cache dtype (ModelOpt) or the model asks for one on this GPU; quantised "
        "weights alone (an FP8 checkpoint) do not quantise the cache.\n\n"
        "Add `--kv-cache-dtype fp8`, or drop the list."
    ),
    since="0.19.1",
    bad=Example(version="0.33.0", command="vllm serve GLM-5.2-FP8 -tp 8 --kv-cache-dtype-skip-layers 0 1"),
    good=Example(
        version="0.33.0",
        command="vllm serve GLM-5.2-FP8 -tp 8 --kv-cache-dtype fp8 --kv-cache-dtype-skip-layers 0 1",
    ),
    check=check,
)
