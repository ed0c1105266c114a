"""KV215: layers at both ends of the model that the cache dtype leaves alone."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.facade import boundary_layers
from kvplan.engine.values import Plan
from kvplan.history.blocks import SKIP_LIST_ALIGNS_BLOCK_SIZE
from kvplan.rules import words
from kvplan.rules.cache.attention import DTYPE_FLAG, SKIP_FLAG
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV215"


def check(plan: Plan) -> Iterator[Finding]:
    """At most one finding."""
    settings, added = plan.settings, boundary_layers(plan)
    if settings is None or not added:
        return
    yield Finding(
        rule=CODE,
        severity=Severity.NOTE,
        message=(
            f"{settings.requested_cache_dtype} leaves {words.layers(added)} in {settings.model_dtype}: vLLM adds them "
            f"to {SKIP_FLAG}{_raised(plan)}"
        ),
        layers=added,
        options=(DTYPE_FLAG,),
        fix="count with it: these layers take the full size, and there is no option to quantise them",
    )


def _raised(plan: Plan) -> str:
    """What the skip list does to the block size."""
    step = next((step for step in plan.block_size_steps if step.cause == "skip_alignment"), None)
    if step is None or not plan.release.has(SKIP_LIST_ALIGNS_BLOCK_SIZE):
        return ""
    return f", which raises the block size to {step.block_size}"


RULE = Rule(
    code=CODE,
    name="boundary-layers",
    severity=Severity.NOTE,
    summary="TurboQuant and UltraQuant leave the first and last two layers in the model's dtype.",
    explanation=(
        "The layers at both ends of a model suffer most from coarse quantisation, so vLLM adds the first and the "
        "last two to `--kv-cache-dtype-skip-layers` itself whenever the cache dtype is `turboquant_*` (from 0.32.0 "
        "on also `ultraquant_4bit`). The indices count decoder layers, `num_hidden_layers` of them. Models with "
        "state layers get no such boundary.\n\n"
        "These layers cost the full bytes a token, and the list has the effects of any skip list: from 0.25 on it "
        "can raise the block size. The launch also runs on FlashAttention 2, which matters on Hopper."
    ),
    since="0.20.2",
    bad=Example(version="0.33.0", command="vllm serve meta-llama/Llama-3.1-8B --kv-cache-dtype turboquant_4bit_nc"),
    good=Example(version="0.33.0", command="vllm serve meta-llama/Llama-3.1-8B --kv-cache-dtype fp8"),
    check=check,
)
