"""KV303: the block size rules out a backend that would have been preferred."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.values import Plan
from kvplan.launch.changing import Change
from kvplan.rules import words
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV303"
FLAG = "--block-size"


def check(plan: Plan) -> Iterator[Finding]:
    """One finding per choice."""
    for choice in plan.backends:
        if choice.backend is None or not choice.precluded_by_block_size:
            continue
        size = plan.launch.get("block_size")
        yield Finding(
            rule=CODE,
            severity=Severity.WARNING,
            message=(
                f"{FLAG} {size} rules out {words.listed(choice.precluded_by_block_size)} for "
                f"{words.layers(choice.layers)}: they run on {choice.backend} instead"
            ),
            layers=choice.layers,
            options=(FLAG,),
            changes=(Change(without=("block_size",)),),
        )


RULE = Rule(
    code=CODE,
    name="block-size-costs-backend",
    severity=Severity.WARNING,
    summary="The given block size rules out a backend that vLLM would have preferred.",
    explanation=(
        "From 0.18.1 on a `--block-size` on the command line takes part in the choice of the attention "
        "backend. A backend whose kernels do not take it is passed over, and a slower one further down the "
        "list is used. vLLM says so in one warning.\n\n"
        "Leave `--block-size` out unless you need it: the chosen backend brings its own."
    ),
    since="0.18.1",
    bad=Example(version="0.33.0", command="vllm serve DeepSeek-V2-Lite -tp 2 --kv-cache-dtype fp8 --block-size 16"),
    good=Example(version="0.33.0", command="vllm serve DeepSeek-V2-Lite -tp 2 --kv-cache-dtype fp8 --block-size 64"),
    check=check,
)
