"""KV305: an attention backend that is chosen, planned for, and then stops the first run."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.failures import PlannedAsBytes, QueriesQuantised
from kvplan.engine.values import Plan
from kvplan.launch.changing import Change
from kvplan.rules import words
from kvplan.rules.failures import indices, said
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV305"
FLAG = "--kv-cache-dtype"


def check(plan: Plan) -> Iterator[Finding]:
    """One finding for each of the two ways."""
    release = words.release_name(plan)
    for error, queries in plan.failures(QueriesQuantised):
        yield Finding(
            rule=CODE,
            severity=Severity.ERROR,
            message=(
                f"{release} plans the cache with {queries.backend} and then stops in the first run: that backend takes "
                f"quantised queries, which do not go with cache dtype {queries.cache_dtype} ({said(error)})"
            ),
            layers=indices(plan, queries),
            options=(FLAG,),
            changes=tuple(Change(values=(("kv_cache_dtype", dtype),)) for dtype in queries.accepted),
        )
    for error, planned in plan.failures(PlannedAsBytes):
        yield Finding(
            rule=CODE,
            severity=Severity.ERROR,
            message=(
                f"{release} plans the cache with {planned.backend} and then stops in the first run: FlashInfer is "
                f"handed the bytes that cache dtype {planned.cache_dtype} is stored in ({said(error)})"
            ),
            layers=indices(plan, planned),
            options=(FLAG,),
            changes=(Change(release="0.32.0"), Change(values=(("kv_cache_dtype", "auto"),))),
        )


RULE = Rule(
    code=CODE,
    name="backend-stops-later",
    severity=Severity.ERROR,
    summary="An attention backend takes the cache dtype when it is chosen, and stops the first run.",
    explanation=(
        "A backend is chosen by what its class says that it supports. What follows once the cache is allocated is not "
        "part of that: metadata builders plan kernels, and the layers run.\n\n"
        "TRITON_ATTN quantises queries before the kernel wherever the cache is fp8, and `Attention.forward` asserts "
        "that the cache then is `fp8` or `fp8_e4m3`: `fp8_e5m2` stops with an AssertionError without a text. In "
        "0.30.0 and 0.31.0 FLASHINFER_MLA_SPARSE_SM90 tells FlashInfer that an fp8 cache holds uint8, which it "
        "refuses; 0.32.0 mends it.\n\n"
        "Read from vLLM's sources; the second is also a public report. Answers of vLLM's start-up without a GPU end "
        "before."
    ),
    bad=Example(
        version="0.33.0",
        command="vllm serve Qwen/Qwen3-32B -tp 2 --attention-backend TRITON_ATTN --kv-cache-dtype fp8_e5m2",
    ),
    good=Example(
        version="0.33.0",
        command="vllm serve Qwen/Qwen3-32B -tp 2 --attention-backend TRITON_ATTN --kv-cache-dtype fp8",
    ),
    references=("vllm#55221",),
    claims=(QueriesQuantised, PlannedAsBytes),
    check=check,
)
