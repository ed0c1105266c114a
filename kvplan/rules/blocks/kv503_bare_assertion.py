"""KV503: an assertion inside vLLM fails without a word."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.facade import boundary_layers
from kvplan.engine.failures import AssertionFails
from kvplan.engine.values import Plan, Stage, StartupError
from kvplan.rules import words
from kvplan.rules.cache.attention import SKIP_FLAG, without_boundary
from kvplan.rules.failures import indices, said
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV503"
_PAGES = frozenset({Stage.GROUPING, Stage.SPECS, Stage.CAPACITY})


def check(plan: Plan) -> Iterator[Finding]:
    """One finding per assertion: the page assertion in words, any other as it stands."""
    for error, facts in plan.failures(AssertionFails):
        if error.stage in _PAGES and plan.skip.tokens:
            yield _pages(plan, error, facts)
        else:
            yield Finding(
                rule=CODE,
                severity=Severity.ERROR,
                message=(
                    f"{words.release_name(plan)} stops at an assertion of its own in stage {error.stage.value} "
                    f"({said(error)})"
                ),
                layers=indices(plan, facts),
                fix="leave out what differs from a plain launch (cache dtype, skip list, block size) step by step",
            )


def _pages(plan: Plan, error: StartupError, facts: AssertionFails) -> Finding:
    """The page of a sliding-window layer outgrows the page it was padded to."""
    skipped_full = tuple(layer.index for layer in plan.layers if layer.skipped and not layer.sliding_window)
    fixed = facts.padded_page_bytes
    common = facts.common_page_bytes or facts.page_bytes
    which = f"the skipped full-attention {words.layers(skipped_full)}" if skipped_full else "a skipped layer"
    if fixed is None or common is None:
        pages = "its pages are larger than those fixed for the sliding-window layers, which cannot grow"
    else:
        pages = (
            f"it needs pages of {words.number(common)} bytes, and the skip list fixed those of sliding-window layers "
            f"at {words.number(fixed)}"
        )
    return Finding(
        rule=CODE,
        severity=Severity.ERROR,
        message=f"{words.release_name(plan)} stops with a bare {error.type} because of {which}: {pages}",
        layers=skipped_full,
        options=(SKIP_FLAG,),
        fix=_fix(plan, set(skipped_full)),
    )


def _fix(plan: Plan, full: set[int]) -> str:
    """The list without full-attention layers."""
    if full & set(boundary_layers(plan)):
        return without_boundary(plan)
    kept = [token for token in plan.skip.tokens if not (token.isdecimal() and int(token) in full)]
    if kept:
        return f"skip sliding-window layers only: {SKIP_FLAG} {words.tokens(kept)}"
    return f"skip sliding-window layers only ({SKIP_FLAG} sliding_window), or drop {SKIP_FLAG}"


RULE = Rule(
    code=CODE,
    name="bare-assertion",
    severity=Severity.ERROR,
    summary="An assertion inside vLLM fails without a message, most often over pages with a skip list.",
    explanation=(
        "gpt-oss, Gemma and other models that mix full attention with sliding windows need one page size for "
        "all layers. From 0.25.0 on a skip list fixes the page of every sliding-window layer at the size of a "
        "quantised page. If the list also names a full-attention layer, that layer keeps its dtype and so a "
        "page twice as large. To reach it vLLM doubles the block size of all smaller layers; the page of a "
        "sliding-window layer then holds more than the size it was fixed at, and the check that it does not "
        "has no text. The log ends with `AssertionError` and no text.\n\n"
        "Name only sliding-window layers in the list (`sliding_window` names them all), or drop it. In 0.19.1 "
        "to 0.24.0 the same launch starts: pages were not fixed there."
    ),
    references=("vllm#42890",),
    bad=Example(
        version="0.33.0",
        command="vllm serve openai/gpt-oss-120b --kv-cache-dtype fp8 --kv-cache-dtype-skip-layers 0 1",
    ),
    good=Example(
        version="0.33.0",
        command="vllm serve openai/gpt-oss-120b --kv-cache-dtype fp8 --kv-cache-dtype-skip-layers sliding_window",
    ),
    claims=(AssertionFails,),
    check=check,
)
