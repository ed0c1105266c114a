"""KV210: an fp8 cache for a checkpoint that declares no scales for it."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.values import Plan
from kvplan.rules import words
from kvplan.rules.cache.attention import DTYPE_FLAG, attention_layers, kv_scheme, of
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV210"
_SCALED = frozenset({"fp8", "fp8_e4m3", "fp8_inc"})
"""Dtypes with one scale per layer that the checkpoint would have to bring. fp8_ds_mla computes its own scales a
token, fp8_e5m2 has range enough."""


def check(plan: Plan) -> Iterator[Finding]:
    """At most one finding."""
    concerned = [layer for layer in attention_layers(plan) if layer.cache_dtype in _SCALED]
    if not concerned or kv_scheme(plan) or plan.launch.get("calculate_kv_scales"):
        return
    dtype = concerned[0].cache_dtype
    yield Finding(
        rule=CODE,
        severity=Severity.NOTE,
        message=(
            f"the checkpoint declares no scales for an {dtype} cache: vLLM takes 1.0 for {words.layers(of(concerned))}"
        ),
        layers=of(concerned),
        options=(DTYPE_FLAG,),
        fix="compare accuracy before the rollout, or take a checkpoint with calibrated KV cache scales",
    )


RULE = Rule(
    code=CODE,
    name="scales-are-one",
    severity=Severity.NOTE,
    summary="The checkpoint declares no KV cache scales: an fp8 cache is stored with scale 1.0.",
    explanation=(
        "A per-tensor fp8 cache divides keys and values by one scale a layer. The scales come from the "
        "checkpoint (ModelOpt, compressed-tensors with a `kv_cache_scheme`). Where it has none, vLLM takes "
        "1.0, and values beyond ±448 are cut off in e4m3. Most models bear it, some do not. vLLM warns only "
        "for checkpoints whose quantisation method looks for such scales. Through 0.27.1 "
        "`--calculate-kv-scales` estimated them at the first forward pass.\n\n"
        "kvplan reads the config only: a checkpoint that carries scales without declaring them is not seen. "
        "`fp8_ds_mla` is not concerned, it computes scales for each token."
    ),
    references=("vllm#12076", "vllm#5493"),
    bad=Example(version="0.33.0", command="vllm serve meta-llama/Llama-3.1-8B --kv-cache-dtype fp8"),
    good=Example(version="0.33.0", command="vllm serve meta-llama/Llama-3.1-8B"),
    check=check,
)
