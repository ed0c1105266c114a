"""KV706: prefill and decode split KV heads differently, and one of them more often than there are heads."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.facade import transfers_by_nixl
from kvplan.engine.values import Plan
from kvplan.rules import words
from kvplan.rules.pairs.example import together
from kvplan.rules.rule import Advice, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV706"
FLAG = "--tensor-parallel-size"


def check(_plan: Plan) -> Iterator[Finding]:
    """Nothing: it takes two launches."""
    return iter(())


def pair(prefill: Plan, decode: Plan) -> Iterator[Finding]:
    """At most one finding, where both hand over through NIXL."""
    if prefill.settings is None or decode.settings is None or prefill.geometry is None or prefill.geometry.use_mla:
        return
    if not (transfers_by_nixl(prefill.launch) and transfers_by_nixl(decode.launch)):
        return
    first, second = prefill.settings.tensor_parallel, decode.settings.tensor_parallel
    fewest = min((layer.total_kv_heads for layer in prefill.geometry.layers if layer.state is None), default=0)
    if first == second or not fewest or max(first, second) <= fewest:
        return
    yield Finding(
        rule=CODE,
        severity=Severity.WARNING,
        message=(
            f"prefill splits {words.number(fewest)} KV heads over {first} GPUs and decode over {second}: beyond "
            f"{fewest} every GPU keeps a whole head, pages stop shrinking, and the sizes that NIXL compares when the "
            "two meet do not follow the ratio of the two"
        ),
        options=(FLAG,),
        fix=f"give both the same {FLAG}, or at most {fewest} to each",
    )


RULE = Rule(
    code=CODE,
    name="pair-heads-replicated",
    severity=Severity.WARNING,
    summary="Prefill and decode have different tensor parallelism, one of them beyond the KV heads.",
    explanation=(
        "Split over more GPUs than it has KV heads, a model keeps copies of them: the pages of one GPU no longer get "
        "smaller. The NIXL connector derives from the ratio of both sides what the other side's pages have to be, and "
        "asserts it at the handshake, with the first request; start-up of both goes through.\n\n"
        "Releases differ in which pairs of this kind they let through. Rests on two public reports and the sources; no "
        "answer of vLLM's start-up reaches this point."
    ),
    bad=together(prefill="-tp 8", decode="-tp 16"),
    good=together(prefill="-tp 8", decode="-tp 8"),
    references=("vllm#45330", "vllm#50765"),
    check=check,
    pair=pair,
    advice=Advice.ALONE,
)
