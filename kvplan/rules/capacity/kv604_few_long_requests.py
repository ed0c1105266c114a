"""KV604: hardly more than one request of the longest length at a time."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.values import Capacity, Plan
from kvplan.launch.changing import Change
from kvplan.rules import words
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV604"


def check(plan: Plan) -> Iterator[Finding]:
    """At most one finding, only where start-up gets past the admission check."""
    capacity = plan.capacity
    if capacity is None or capacity.max_concurrency is None or plan.error is not None:
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
            changes=_shorter(capacity, 1),
        )
    elif times < 2:
        yield Finding(
            rule=CODE,
            severity=Severity.NOTE,
            message=(
                f"the cache holds {times:.2f} requests of {length} tokens: a second long one waits or is preempted"
            ),
            options=("--max-model-len",),
            changes=_shorter(capacity, 2),
        )


def _shorter(capacity: Capacity, times: int) -> tuple[Change, ...]:
    """Contexts of which `times` fit, rounded down to something that people write."""
    tokens = int((capacity.tokens or 0) / times)
    lengths = (tokens // unit * unit for unit in (8_192, 1_024, 16))
    fitting = dict.fromkeys(length for length in lengths if 0 < length < capacity.max_model_len)
    return tuple(Change(values=(("max_model_len", length),)) for length in fitting)


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
