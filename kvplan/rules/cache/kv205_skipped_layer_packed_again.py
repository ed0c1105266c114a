"""KV205: a skipped layer whose dtype is turned back into the packed one."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.values import Plan
from kvplan.launch.changing import Change
from kvplan.rules import words
from kvplan.rules.cache.attention import SKIP_FLAG, attention_layers
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV205"


def check(plan: Plan) -> Iterator[Finding]:
    """At most one finding."""
    concerned = plan.skip.canonicalised_layers
    if not concerned:
        return
    found = [layer for layer in attention_layers(plan) if layer.index in concerned]
    dtype = next((layer.cache_dtype for layer in found if layer.cache_dtype), "fp8_ds_mla")
    backend = next((layer.backend for layer in found if layer.backend), "the backend")
    yield Finding(
        rule=CODE,
        severity=Severity.WARNING,
        message=(
            f"{words.layers(concerned)} {'is' if len(concerned) == 1 else 'are'} in the skip list and "
            f"stored as {dtype} all the same: {backend} turns `auto` into it"
        ),
        layers=concerned,
        options=(SKIP_FLAG,),
        changes=(Change(without=("kv_cache_dtype_skip_layers",)),),
    )


RULE = Rule(
    code=CODE,
    name="skipped-layer-packed-again",
    severity=Severity.WARNING,
    summary="A skipped layer gets the packed dtype all the same, because its backend stores nothing else.",
    explanation=(
        "Skipping sets a layer's cache dtype to `auto`. For sparse MLA on compute capability 12.x the only "
        "backend is FLASHINFER_MLA_SPARSE_SM120, and from 0.24.0 on it turns `auto`, `fp8` and `fp8_e4m3` "
        "into `fp8_ds_mla`. The layer that was to stay in the model's dtype is packed like the others, "
        "without a message. The block size is raised for the list nevertheless.\n\n"
        "Drop the list on these GPUs, or serve the model on a GPU with another sparse backend."
    ),
    since="0.26.0",
    bad=Example(
        version="0.33.0",
        gpu="rtxpro6000",
        command="vllm serve GLM-5.2-FP8 -tp 8 --kv-cache-dtype fp8 --kv-cache-dtype-skip-layers 0 1",
    ),
    good=Example(
        version="0.33.0",
        command="vllm serve GLM-5.2-FP8 -tp 8 --kv-cache-dtype fp8 --kv-cache-dtype-skip-layers 0 1",
    ),
    check=check,
)
