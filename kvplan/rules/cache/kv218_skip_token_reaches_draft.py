"""KV218: a skip token reaches a layer of the draft."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.facade import is_quantised
from kvplan.engine.values import Plan
from kvplan.rules import words
from kvplan.rules.cache.attention import SKIP_FLAG
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV218"


def check(plan: Plan) -> Iterator[Finding]:
    """At most one finding, naming the draft's layers."""
    reached = plan.skip.matched_drafts
    if not reached or plan.settings is None or not is_quantised(plan.settings.cache_dtype):
        return
    shared = sorted(
        {number for name in reached for number in map(int, filter(str.isdecimal, name.split(".")))}
        & set(plan.skip.matched_layers)
    )
    also = f", with {words.layers(shared)} of the model" if shared else ""
    named = reached[0] if len(reached) == 1 else f"{len(reached)} layers, the first {reached[0]}"
    yield Finding(
        rule=CODE,
        severity=Severity.NOTE,
        message=f"the skip list reaches the draft too{also}: {named} stays unquantised",
        options=(SKIP_FLAG, "--speculative-config"),
        fix=None,
    )


RULE = Rule(
    code=CODE,
    name="skip-token-reaches-draft",
    severity=Severity.NOTE,
    summary="A token of the skip list also names a layer of the draft.",
    explanation=(
        "A skip token is compared with the number in a layer's module name, and the draft's layers have names "
        "too. MTP modules of DeepSeek, GLM, MiMo and Ernie and the layers of EAGLE, DFlash and DSpark are numbered "
        "after the model's own (61 for DeepSeek-V3). Qwen3-Next, Qwen3.5, Nemotron-H and EXAONE-MoE number theirs "
        "from 0, and a draft model of its own has layers 0, 1, … under draft_model: there the token 0 "
        "reaches a layer of the model and one of the draft.\n\n"
        "A draft whose cache stays unquantised needs more memory, and where pages must be equal it can change "
        "what the others are padded to. There is no token for one without the other."
    ),
    since="0.19.1",
    bad=Example(
        version="0.33.0",
        command=(
            "vllm serve DeepSeek-V3.2 -tp 8 --kv-cache-dtype fp8 --kv-cache-dtype-skip-layers 0 61 "
            '--speculative-config \'{"method": "mtp", "num_speculative_tokens": 1}\''
        ),
    ),
    good=Example(
        version="0.33.0",
        command=(
            "vllm serve DeepSeek-V3.2 -tp 8 --kv-cache-dtype fp8 --kv-cache-dtype-skip-layers 0 1 "
            '--speculative-config \'{"method": "mtp", "num_speculative_tokens": 1}\''
        ),
    ),
    check=check,
)
