"""KV214: TurboQuant's own demands on skip list and model end start-up."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.failures import SkipTokenNotANumber, TurboquantOnHybrid
from kvplan.engine.values import Plan, StartupError
from kvplan.history.packed import TURBOQUANT_REFUSES_HYBRIDS, TURBOQUANT_SORTS_BY_NUMBER
from kvplan.rules import words
from kvplan.rules.cache.attention import DTYPE_FLAG, SKIP_FLAG
from kvplan.rules.failures import said
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV214"


def check(plan: Plan) -> Iterator[Finding]:
    """At most one finding."""
    for error, skip in plan.failures(SkipTokenNotANumber):
        yield Finding(
            rule=CODE,
            severity=Severity.ERROR,
            message=(
                f"with {skip.cache_dtype} {words.release_name(plan)} sorts the skip list as numbers, and "
                f"`{skip.token}` is none ({said(error)})"
            ),
            options=(SKIP_FLAG, DTYPE_FLAG),
            fix=f"name the layers by number, or use vLLM {words.release_after(TURBOQUANT_SORTS_BY_NUMBER)} or later",
        )
    for error, hybrid in plan.failures(TurboquantOnHybrid):
        yield _hybrid(plan, error, hybrid.cache_dtype)


def _hybrid(plan: Plan, error: StartupError, cache_dtype: str) -> Finding:
    refused = plan.release.has(TURBOQUANT_REFUSES_HYBRIDS)
    later = f"use vLLM {words.release_after(TURBOQUANT_REFUSES_HYBRIDS)} or later, or pass {DTYPE_FLAG} fp8"
    return Finding(
        rule=CODE,
        severity=Severity.ERROR,
        message=(f"{words.release_name(plan)} has no {cache_dtype} for this model with state layers ({said(error)})"),
        options=(DTYPE_FLAG,),
        fix=later if refused else f"pass {DTYPE_FLAG} fp8",
    )


RULE = Rule(
    code=CODE,
    name="turboquant-refused",
    severity=Severity.ERROR,
    summary="TurboQuant stops start-up over a token of the skip list or over a model with state layers.",
    explanation=(
        "With a `turboquant_*` cache vLLM adds the first and last two layers to the skip list itself. Through "
        "0.31.0 it then sorts the list as numbers: a token such as `sliding_window` or `0,1` ends start-up with "
        "`ValueError: invalid literal for int()`. From 0.32.0 on the list is sorted as text.\n\n"
        "0.20.2 refuses TurboQuant for models with state layers (Mamba, linear attention) altogether. Later "
        "releases serve them without boundary layers, provided the config names its full-attention layers "
        "(`layer_types`, `layers_block_type` or `attn_type_list`).\n\n"
        "Name layers by number, or upgrade."
    ),
    since="0.20.2",
    bad=Example(
        version="0.31.0",
        command=(
            "vllm serve google/gemma-3-27b-it --kv-cache-dtype turboquant_k8v4 "
            "--kv-cache-dtype-skip-layers sliding_window"
        ),
    ),
    good=Example(
        version="0.32.0",
        command=(
            "vllm serve google/gemma-3-27b-it --kv-cache-dtype turboquant_k8v4 "
            "--kv-cache-dtype-skip-layers sliding_window"
        ),
    ),
    claims=(SkipTokenNotANumber, TurboquantOnHybrid),
    check=check,
)
