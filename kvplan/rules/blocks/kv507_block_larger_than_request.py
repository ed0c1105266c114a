"""KV507: a block holds more tokens than the longest request."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.values import Plan
from kvplan.launch.changing import Change
from kvplan.rules import words
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV507"


def check(plan: Plan) -> Iterator[Finding]:
    """At most one finding, about the smallest block size in use."""
    settings = plan.settings
    if settings is None or not plan.layers:
        return
    smallest = min(layer.block_size for layer in plan.layers)
    if smallest > settings.max_model_len:
        yield Finding(
            rule=CODE,
            severity=Severity.WARNING,
            message=(
                f"a block of {words.number(smallest)} tokens is larger than the longest request "
                f"({words.number(settings.max_model_len)} tokens): every request wastes part of its block, and "
                "prefix caching, which shares whole blocks only, never hits"
            ),
            options=("--block-size", "--max-model-len"),
            changes=(
                Change(without=("block_size",)),
                *(Change(values=(("block_size", size),)) for size in (64, 32, 16) if size <= settings.max_model_len),
            ),
        )


RULE = Rule(
    code=CODE,
    name="block-larger-than-request",
    severity=Severity.WARNING,
    summary="The block size is larger than the longest request.",
    explanation=(
        "A request takes whole blocks of each layer. If a block holds more tokens than the longest request, "
        "the rest of it is lost, and prefix caching never shares anything because only full blocks are "
        "shared.\n\n"
        "Leave `--block-size` to vLLM."
    ),
    bad=Example(version="0.33.0", command="vllm serve meta-llama/Llama-3.1-8B --block-size 256 --max-model-len 128"),
    good=Example(version="0.33.0", command="vllm serve meta-llama/Llama-3.1-8B --max-model-len 128"),
    check=check,
)
