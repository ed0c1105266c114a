"""KV209: an explicit float16 or bfloat16 cache beside a model of the other dtype."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.failures import CacheDtypeMismatch
from kvplan.engine.values import Plan
from kvplan.history.cache import EXPLICIT_DTYPE_MUST_MATCH_MODEL
from kvplan.launch.changing import Change
from kvplan.rules import words
from kvplan.rules.cache.attention import DTYPE_FLAG
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV209"
_PLAIN = frozenset({"float16", "bfloat16"})


def check(plan: Plan) -> Iterator[Finding]:
    """The refusal where the release refuses, else a warning where the cache differs silently."""
    settings = plan.settings
    refused = False
    for _, facts in plan.failures(CacheDtypeMismatch):
        refused = True
        yield Finding(
            rule=CODE,
            severity=Severity.ERROR,
            message=(
                f"{words.release_name(plan)} refuses {DTYPE_FLAG} {facts.cache_dtype} beside a model in "
                f"{facts.model_dtype}"
            ),
            options=(DTYPE_FLAG, "--dtype"),
            fix=f"{DTYPE_FLAG} auto, or --dtype {facts.cache_dtype}",
        )
    if refused or not plan.layers or settings is None or settings.requested_cache_dtype not in _PLAIN:
        return
    if settings.requested_cache_dtype != settings.model_dtype and settings.cache_dtype != "auto":
        yield Finding(
            rule=CODE,
            severity=Severity.WARNING,
            message=(
                f"the cache is stored as {settings.requested_cache_dtype} beside a model in "
                f"{settings.model_dtype}; "
                f"vLLM {EXPLICIT_DTYPE_MUST_MATCH_MODEL.since} and later refuse that"
            ),
            options=(DTYPE_FLAG, "--dtype"),
            changes=(Change(values=(("kv_cache_dtype", "auto"),)),),
        )


RULE = Rule(
    code=CODE,
    name="cache-dtype-differs-from-model",
    severity=Severity.ERROR,
    summary="An explicit float16 or bfloat16 cache does not match the model's dtype.",
    explanation=(
        "`--kv-cache-dtype float16` or `bfloat16` names a dtype, not 'unquantised'. When the model computes "
        "in the other one, releases before 0.33.0 store the cache in the named dtype without a word: every "
        "key and value is converted, with float16 large values can overflow, with bfloat16 digits are lost. "
        "0.33.0 refuses the combination while options are checked.\n\n"
        "Pass `--kv-cache-dtype auto`, or change `--dtype` with it. T4 and V100 have no bfloat16, so a "
        "bfloat16 model runs there in float16."
    ),
    bad=Example(version="0.33.0", command="vllm serve meta-llama/Llama-3.1-8B --kv-cache-dtype float16"),
    good=Example(version="0.33.0", command="vllm serve meta-llama/Llama-3.1-8B --kv-cache-dtype bfloat16"),
    claims=(CacheDtypeMismatch,),
    check=check,
)
