"""KV211: sparse MLA turns a plain fp8 cache dtype into the packed fp8_ds_mla."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.values import Plan
from kvplan.rules import words
from kvplan.rules.cache.attention import DTYPE_FLAG, attention_layers, of
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV211"
PACKED = "fp8_ds_mla"


def check(plan: Plan) -> Iterator[Finding]:
    """At most one finding."""
    settings = plan.settings
    if settings is None or settings.requested_cache_dtype in ("auto", PACKED):
        return
    concerned = [
        layer
        for layer in attention_layers(plan)
        if layer.cache_dtype == PACKED and layer.index not in plan.skip.canonicalised_layers
    ]
    if not concerned:
        return
    backend = next((layer.backend for layer in concerned if layer.backend), "the backend")
    rows = words.listed(sorted({f"{layer.bytes_per_token:g}" for layer in concerned}, key=float))
    yield Finding(
        rule=CODE,
        severity=Severity.NOTE,
        message=(
            f"{DTYPE_FLAG} {settings.requested_cache_dtype} becomes {PACKED} on {backend}: {rows} bytes a "
            "token and "
            f"layer"
        ),
        layers=of(concerned),
        options=(DTYPE_FLAG,),
    )


RULE = Rule(
    code=CODE,
    name="dtype-becomes-packed",
    severity=Severity.NOTE,
    summary="On this backend fp8 means fp8_ds_mla: 656 bytes a token instead of 576.",
    explanation=(
        "FLASHMLA_SPARSE has one quantised layout, `fp8_ds_mla`: 512 fp8 values with four fp32 scales and 64 "
        "RoPE values in bf16, 656 bytes a token and layer. A request for `fp8` is rewritten to it: by a hook "
        "of the DeepseekV32ForCausalLM architecture through 0.17.1, by the layer itself from 0.18.1 on. On "
        "compute capability 12.x FLASHINFER_MLA_SPARSE_SM120 does the same from 0.24.0 on. "
        "FLASHINFER_MLA_SPARSE on 10.x keeps plain fp8 rows of 576 bytes.\n\n"
        "Nothing to mend; count with 656 bytes."
    ),
    bad=Example(version="0.33.0", command="vllm serve GLM-5.2-FP8 -tp 8 --kv-cache-dtype fp8"),
    good=Example(version="0.33.0", command="vllm serve GLM-5.2-FP8 -tp 8 --kv-cache-dtype fp8_ds_mla"),
    check=check,
)
