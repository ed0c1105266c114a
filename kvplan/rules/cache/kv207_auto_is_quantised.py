"""KV207: the cache is quantised although nobody asked for it."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.facade import is_quantised
from kvplan.engine.values import Plan
from kvplan.launch.changing import Change
from kvplan.rules.cache.attention import DTYPE_FLAG, kv_scheme, of, quantised_layers, reason
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV207"


def check(plan: Plan) -> Iterator[Finding]:
    """At most one finding."""
    settings = plan.settings
    if settings is None or settings.requested_cache_dtype != "auto":
        return
    quantised = quantised_layers(plan)
    dtype = settings.cache_dtype if is_quantised(settings.cache_dtype) else None
    if dtype is None and quantised:
        dtype = quantised[0].cache_dtype
    if dtype is None:
        return
    yield Finding(
        rule=CODE,
        severity=Severity.NOTE,
        message=f"no cache dtype is asked for and the cache becomes {dtype}: {_why(plan)}",
        layers=of(quantised),
        options=(DTYPE_FLAG,),
        changes=(Change(values=(("kv_cache_dtype", settings.model_dtype),)),),
    )


def _why(plan: Plan) -> str:
    """The engine's own reason, else where such a dtype comes from."""
    settings = plan.settings
    if settings is not None and not is_quantised(settings.cache_dtype):
        backend = next((layer.backend for layer in quantised_layers(plan) if layer.backend), None)
        if backend is not None and not kv_scheme(plan):
            return f"{backend} stores nothing else"
        return "the checkpoint declares it"
    return reason(plan, "cache.dtype") or "the checkpoint or the model asks for it"


RULE = Rule(
    code=CODE,
    name="auto-is-quantised",
    severity=Severity.NOTE,
    summary="Without a cache dtype on the command line the cache becomes a quantised one.",
    explanation=(
        "`--kv-cache-dtype auto`, the default, is the model's own dtype with these exceptions. A ModelOpt "
        "checkpoint with a cache algorithm in its quantisation section makes it `fp8_e4m3` (or `nvfp4` from "
        "0.20.2 on). A compressed-tensors checkpoint with a `kv_cache_scheme` makes `Attention` layers `fp8`. "
        "From 0.32.0 on GLM-5 models make it `fp8_e4m3` on compute capability 10.x. Sparse MLA on 12.x always "
        "stores `fp8_ds_mla`. Quantised weights alone change nothing.\n\n"
        "If the cache is to stay unquantised, name the model's dtype explicitly, such as `--kv-cache-dtype "
        "bfloat16`."
    ),
    bad=Example(version="0.33.0", gpu="b200", command="vllm serve GLM-5.2-FP8 -tp 8"),
    good=Example(version="0.33.0", gpu="h200", command="vllm serve GLM-5.2-FP8 -tp 8"),
    check=check,
)
