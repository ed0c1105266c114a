"""KV611: prefix caching in blocks so long that common prompts never hit."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.values import Plan
from kvplan.launch.changing import Change
from kvplan.rules import words
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV611"
LONG = 512
"""Tokens of a block from which on system prompts and turns of a chat are often shorter."""


def check(plan: Plan) -> Iterator[Finding]:
    """At most one finding, where all groups have the same long block and nothing asks for finer hashes.

    Groups of several sizes are hashed by their greatest common divisor, and ranks that share a context have blocks of
    another length: nothing is said of them.
    """
    settings = plan.settings
    if settings is None or not settings.prefix_caching or not plan.groups:
        return
    if settings.decode_context_parallel > 1 or settings.prefill_context_parallel > 1:
        return
    sizes = {group.block_size for group in plan.groups}
    if len(sizes) > 1 or plan.launch.get("prefix_match_unit") is not None:
        return
    (size,) = sizes
    if LONG <= size <= settings.max_model_len:
        yield Finding(
            rule=CODE,
            severity=Severity.NOTE,
            message=(
                f"the prefix cache shares whole blocks of {words.number(size)} tokens: a prompt of "
                f"{words.number(size)} tokens or less never hits it, and of longer ones only whole blocks do"
            ),
            options=("--enable-prefix-caching",),
            changes=(Change(values=(("enable_prefix_caching", False),)),),
        )


RULE = Rule(
    code=CODE,
    name="prefixes-shorter-than-a-block",
    severity=Severity.NOTE,
    summary="Blocks are so long that most prompts never hit the prefix cache.",
    explanation=(
        "Only whole blocks are shared, and the last token of a prompt is always computed, so a prompt has to be "
        "longer than a block to hit anything. Models with state layers have blocks as large as a state: 528, 1,056 "
        "or 1,600 tokens of attention where others have 16. Prefix caching also keeps more states of each "
        "request.\n\n"
        "Where prompts share thousands of tokens it still pays. Otherwise `--no-enable-prefix-caching` leaves the "
        "memory to requests."
    ),
    bad=Example(version="0.33.0", command="vllm serve Qwen/Qwen3.5-27B --enable-prefix-caching"),
    good=Example(version="0.33.0", command="vllm serve Qwen/Qwen3.5-27B --no-enable-prefix-caching"),
    check=check,
)
