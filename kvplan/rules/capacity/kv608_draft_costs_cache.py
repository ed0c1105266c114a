"""KV608: what the draft's layers cost."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.facade import Role
from kvplan.engine.values import Plan
from kvplan.launch.changing import Change
from kvplan.rules import words
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV608"
LARGE = 0.05
"""Share of the cache below which a draft is not worth a word."""


def check(plan: Plan) -> Iterator[Finding]:
    """At most one finding, when the draft takes a notable share of the cache."""
    drafts = [layer for layer in plan.layers if layer.role is Role.DRAFT]
    if not drafts or plan.settings is None:
        return
    stage = drafts[0].rank
    mine = sum(layer.bytes_per_token for layer in drafts)
    whole = sum(layer.bytes_per_token for layer in plan.layers if layer.rank == stage)
    if mine < LARGE * whole:
        return
    named = "1 draft layer takes" if len(drafts) == 1 else f"{len(drafts)} draft layers take"
    yield Finding(
        rule=CODE,
        severity=Severity.NOTE,
        message=(
            f"{named} {words.number(round(mine))} of {words.number(round(whole))} bytes of cache a token "
            f"({words.percent(mine, whole)})"
        ),
        options=("--speculative-config",),
        changes=(Change(without=("speculative_config",)),),
    )


RULE = Rule(
    code=CODE,
    name="draft-costs-cache",
    severity=Severity.NOTE,
    summary="The draft's layers take a notable share of the KV cache.",
    explanation=(
        "A draft keeps keys and values of every token as the model does. MTP and EAGLE add one layer or a few; a "
        "draft model of its own adds all of its layers, and a draft of many KV heads beside a model with latent "
        "attention can cost more than the model itself. Draft layers share the blocks of the model's: a draft "
        "layer of another size also changes pages and groups.\n\n"
        "All draft layers are on the last pipeline stage, which then has the least room, and the stage with the "
        "fewest blocks decides for all. From 0.26.0 on kv_cache_dtype in --speculative-config gives the draft a "
        "cache dtype of its own."
    ),
    bad=Example(
        version="0.33.0",
        command=(
            "vllm serve meta-llama/Llama-3.1-70B-Instruct -tp 4 --speculative-config "
            '\'{"method": "draft_model", "model": "meta-llama/Llama-3.2-1B", "num_speculative_tokens": 3}\''
        ),
    ),
    good=Example(
        version="0.33.0",
        command=(
            'vllm serve DeepSeek-V3.2 -tp 8 --speculative-config \'{"method": "mtp", "num_speculative_tokens": 1}\''
        ),
    ),
    check=check,
)
