"""KV502: the block size is not the one asked for, or the skip list raised it."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.values import BlockSizeStep, Plan
from kvplan.launch.changing import Change
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV502"
FLAG = "--block-size"
SKIP_FLAG = "--kv-cache-dtype-skip-layers"


def check(plan: Plan) -> Iterator[Finding]:
    """At most one finding: the operator's size overruled, else the skip list's effect."""
    steps = tuple(step for step in plan.block_size_steps if step.cause != "unification")
    if len(steps) < 2:
        return
    last = steps[-1]
    raised = next((step for step in steps if step.cause == "skip_alignment"), None)
    asked = plan.settings.user_block_size if plan.settings is not None else None
    if asked is not None and last.block_size != asked:
        yield Finding(
            rule=CODE,
            severity=Severity.WARNING,
            message=f"{FLAG} {asked} is not used: the block size is {last.block_size} ({last.text})",
            options=(FLAG, *((SKIP_FLAG,) if raised is not None else ())),
            changes=_ways(last, raised),
        )
    elif raised is not None and raised.block_size != _before(steps, raised):
        idle = not (plan.skip.matched_layers or plan.skip.matched_drafts)
        yield Finding(
            rule=CODE,
            severity=Severity.WARNING if idle else Severity.NOTE,
            message=(
                f"the skip list raises the block size from {_before(steps, raised)} to {raised.block_size} tokens"
                + (", although it skips no layer" if idle else "")
            ),
            options=(SKIP_FLAG,),
            changes=(Change(without=("kv_cache_dtype_skip_layers",)),) if idle else (),
        )


def _before(steps: tuple[BlockSizeStep, ...], step: BlockSizeStep) -> int:
    """The block size just before `step`."""
    position = steps.index(step)
    return steps[position - 1].block_size if position else step.block_size


def _ways(last: BlockSizeStep, raised: BlockSizeStep | None) -> tuple[Change, ...]:
    """How to get the size, or to ask for the one that there is."""
    explicit = Change(values=(("block_size", last.block_size),))
    return (Change(without=("block_size" if raised is None else "kv_cache_dtype_skip_layers",)), explicit)


RULE = Rule(
    code=CODE,
    name="block-size-changed",
    severity=Severity.WARNING,
    summary="The block size differs from --block-size, or the skip list raised it.",
    explanation=(
        "`--block-size` is a wish. Through 0.17.1 a fixed table for MLA models overwrites it. From 0.25.0 on "
        "a skip list that is not empty raises it until a page of quantised tokens covers the smallest page of "
        "unquantised ones: 16 becomes 32 for fp8, 64 becomes 128 for sparse MLA. The step looks only at "
        "whether the list is empty: a token that matches no layer raises it too, and so does a list that the "
        "model's layers ignore.\n\n"
        "A larger block wastes up to one block a request and coarsens prefix caching; sizes in logs and "
        "metrics count in it."
    ),
    references=("vllm#42890",),
    bad=Example(
        version="0.33.0",
        command="vllm serve meta-llama/Llama-3.1-8B --kv-cache-dtype fp8 --kv-cache-dtype-skip-layers 0",
    ),
    good=Example(version="0.33.0", command="vllm serve meta-llama/Llama-3.1-8B --kv-cache-dtype fp8"),
    check=check,
)
