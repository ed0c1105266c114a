"""KV204: the indexer caches of sparse attention are not touched by the skip list."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.facade import Role, is_quantised
from kvplan.engine.values import Plan
from kvplan.rules import words
from kvplan.rules.cache.attention import SKIP_FLAG, of
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV204"


def check(plan: Plan) -> Iterator[Finding]:
    """At most one finding, when a layer is skipped and the model has indexers."""
    indexers = [layer for layer in plan.layers if layer.role is Role.INDEXER]
    if not indexers or not plan.skip.matched_layers or plan.settings is None:
        return
    if not is_quantised(plan.settings.cache_dtype_after_load):
        return
    row = words.listed(sorted({f"{layer.bytes_per_token:g}" for layer in indexers}, key=float))
    yield Finding(
        rule=CODE,
        severity=Severity.NOTE,
        message=(
            f"the skip list does not reach the indexer caches: all {len(indexers)} keep their 8-bit rows of {row} "
            f"bytes a token"
        ),
        layers=of(indexers),
        options=(SKIP_FLAG,),
    )


RULE = Rule(
    code=CODE,
    name="skip-list-stops-at-indexer",
    severity=Severity.NOTE,
    summary="The skip list applies to the main cache only; indexer caches stay 8-bit.",
    explanation=(
        "Sparse MLA (DeepSeek-V3.2, GLM-5 family) keeps a second, small cache of indexer keys: 128 one-byte "
        "values and a scale, 132 bytes a token. Its dtype is fixed in the model's code. Neither "
        "`--kv-cache-dtype` nor the skip list changes it, in any release. A skipped layer therefore still "
        "selects its tokens with 8-bit keys.\n\n"
        "There is nothing to mend; know it when you compare accuracy."
    ),
    since="0.26.0",
    bad=Example(
        version="0.33.0",
        command="vllm serve GLM-5.2-FP8 -tp 8 --kv-cache-dtype fp8 --kv-cache-dtype-skip-layers 0 1",
    ),
    good=Example(version="0.33.0", command="vllm serve GLM-5.2-FP8 -tp 8 --kv-cache-dtype fp8"),
    check=check,
)
