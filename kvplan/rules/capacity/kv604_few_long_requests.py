"""KV604: hardly more than one request of the longest length at a time."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.values import Plan
from kvplan.rules import words
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV604"


def check(plan: Plan) -> Iterator[Finding]:
    """At most one finding, only where start-up gets past the admission check."""
    capacity = plan.capacity
    if capacity is None or capacity.max_concurrency is None or not plan.ok:
        return
    times = round(capacity.max_concurrency, 2)
    length = words.number(capacity.max_model_len)
    if times < 1:
        yield Finding(
            rule=CODE,
            severity=Severity.WARNING,
            message=(
                f"start-up passes, but the cache holds only {times:.2f} of a request of {length} tokens: such a "
                "request can never finish"
            ),
            options=("--max-model-len",),
            fix=f"lower --max-model-len well below {length}, or make room for the cache",
        )
    elif times < 2:
        yield Finding(
            rule=CODE,
            severity=Severity.NOTE,
            message=(
                f"the cache holds {times:.2f} requests of {length} tokens: a second long one waits or is preempted"
            ),
            options=("--max-model-len",),
            fix="lower --max-model-len if requests are shorter in practice, or make room for the cache",
        )


RULE = Rule(
    code=CODE,
    name="few-long-requests",
    severity=Severity.WARNING,
    summary="The cache holds less than two requests of --max-model-len tokens.",
    explanation=(
        "vLLM's log gives the number of requests of `--max-model-len` tokens that fit at once (`Maximum "
        "concurrency for … tokens per request`). Between one and two, a second long request waits or preempts "
        "the first. Below one, a request of that length is accepted and can never finish: it happens in "
        "0.16.0 to 0.18.1, whose admission check counts the first group of layers only.\n\n"
        "Lower `--max-model-len` to what is needed, or make room for the cache."
    ),
    bad=Example(version="0.33.0", command="vllm serve GLM-5.2-FP8 -tp 8 --kv-cache-dtype fp8"),
    good=Example(version="0.33.0", command="vllm serve GLM-5.2-FP8 -tp 8 --kv-cache-dtype fp8 --max-model-len 131072"),
    check=check,
)
