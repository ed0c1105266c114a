"""KV213: an NVFP4 cache for a model with latent attention."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.failures import DtypeNotForMla
from kvplan.engine.values import Plan
from kvplan.rules import words
from kvplan.rules.cache.attention import DTYPE_FLAG
from kvplan.rules.failures import said
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV213"


def check(plan: Plan) -> Iterator[Finding]:
    """At most one finding."""
    for error, facts in plan.failures(DtypeNotForMla):
        dtype = facts.cache_dtype
        asked = plan.settings is not None and plan.settings.requested_cache_dtype == dtype
        who = f"{DTYPE_FLAG} {dtype}" if asked else f"the checkpoint makes the cache {dtype}, which"
        yield Finding(
            rule=CODE,
            severity=Severity.ERROR,
            message=(
                f"{who} is not for multi-head latent attention: {words.release_name(plan)} refuses it ({said(error)})"
            ),
            options=(DTYPE_FLAG,),
            fix=f"pass {DTYPE_FLAG} fp8 or auto" if asked else f"pass {DTYPE_FLAG} fp8 explicitly",
        )


RULE = Rule(
    code=CODE,
    name="nvfp4-with-mla",
    severity=Severity.ERROR,
    summary="An NVFP4 cache is refused for models with multi-head latent attention.",
    explanation=(
        "`nvfp4` and `nvfp4_4over6` pack keys and values of ordinary attention heads: half a byte a value and one "
        "scale byte for 16 values. A latent row (DeepSeek, Kimi, GLM-5) has no such layout. From 0.21.0 on vLLM "
        "says so while it checks its config; 0.20.2 gets as far as the first layer and finds no backend.\n\n"
        "Take `fp8`. For sparse MLA on compute capability 10.x, 0.30.0 and later have `nvfp4_ds_mla`, 352 bytes a "
        "token."
    ),
    references=(),
    since="0.21.0",
    bad=Example(version="0.33.0", gpu="b200", command="vllm serve DeepSeek-V2-Lite --kv-cache-dtype nvfp4"),
    good=Example(version="0.33.0", gpu="b200", command="vllm serve DeepSeek-V2-Lite --kv-cache-dtype fp8"),
    claims=(DtypeNotForMla,),
    check=check,
)
