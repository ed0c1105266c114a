"""KV509: a block that the scheduler could not fill in one step."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.failures import BlockExceedsBatch
from kvplan.engine.values import Plan
from kvplan.rules import words
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV509"
FLAG = "--max-num-batched-tokens"


def check(plan: Plan) -> Iterator[Finding]:
    """One finding: there is one block size."""
    for _, facts in plan.failures(BlockExceedsBatch):
        yield Finding(
            rule=CODE,
            severity=Severity.ERROR,
            message=(
                f"{words.release_name(plan)} refuses a block of {words.number(facts.block_size)} tokens beside a "
                f"smaller {FLAG}: with prefix caching a step must be able to end on a block"
            ),
            options=(FLAG,),
            fix=f"give {FLAG} {facts.block_size} or more, or drop --enable-prefix-caching",
        )


RULE = Rule(
    code=CODE,
    name="block-exceeds-batch",
    severity=Severity.ERROR,
    summary="Prefix caching of state layers needs a batch that holds a whole block.",
    explanation=(
        "The attention block of a hybrid model grows until its page covers one state: hundreds to thousands of "
        "tokens, twice as many with a quantised cache. From 0.18 to 0.26 mode align caches a state only where a "
        "scheduler step ends on a block, so vLLM refuses a block larger than the batch once everything is planned.\n\n"
        "From 0.27 on states are also stored inside a step."
    ),
    bad=Example(
        version="0.26.0",
        command="vllm serve Qwen/Qwen3.5-35B-A3B --enable-prefix-caching --max-num-batched-tokens 1024",
    ),
    good=Example(
        version="0.26.0",
        command="vllm serve Qwen/Qwen3.5-35B-A3B --enable-prefix-caching --max-num-batched-tokens 2048",
    ),
    check=check,
    claims=(BlockExceedsBatch,),
)
