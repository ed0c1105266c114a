"""KV501: layers whose pages cannot be brought to one size."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.facade import boundary_layers
from kvplan.engine.failures import PagesNotUnifiable
from kvplan.engine.values import Plan
from kvplan.history.blocks import PAGES_PADDED_EXCEPT_MLA
from kvplan.rules import words
from kvplan.rules.cache.attention import without_boundary
from kvplan.rules.failures import indices
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV501"


def check(plan: Plan) -> Iterator[Finding]:
    """At most one finding."""
    for error, facts in plan.failures(PagesNotUnifiable):
        pages = sorted({layer.spec_page_bytes for layer in plan.layers})
        sizes = words.listed([words.number(size) for size in pages])
        options = ("--kv-cache-dtype-skip-layers",) if plan.skip.tokens else ("--kv-cache-dtype",)
        yield Finding(
            rule=CODE,
            severity=Severity.ERROR,
            message=(
                f"{words.release_name(plan)} cannot bring the layers' pages{f' of {sizes} bytes' if pages else ''} to "
                f"one size: a smaller one does not divide the largest ({error.type})"
            ),
            layers=indices(plan, facts),
            options=options,
            fix=_fix(plan),
        )


def _fix(plan: Plan) -> str:
    """What makes the pages equal or paddable."""
    if boundary_layers(plan):
        return without_boundary(plan)
    if plan.skip.tokens:
        return "drop --kv-cache-dtype-skip-layers: the skipped layers are those with the other page"
    if not plan.release.has(PAGES_PADDED_EXCEPT_MLA):
        return f"use vLLM {PAGES_PADDED_EXCEPT_MLA.since} or later, which pads such pages"
    return "choose a --kv-cache-dtype with which all layers have pages that divide each other, such as auto"


RULE = Rule(
    code=CODE,
    name="pages-cannot-be-unified",
    severity=Severity.ERROR,
    summary="Layers with different page sizes share the pool, and their pages cannot be made equal.",
    explanation=(
        "A model with layers of several kinds (full attention beside sliding windows, or quantised beside "
        "skipped ones) shares one pool of blocks, so every layer needs a page of the same size. vLLM "
        "multiplies the block size of the layers with smaller pages until they reach the largest. That only "
        "works if the smaller page divides the larger. Otherwise: through 0.23.0 an error; 0.24.0 to 0.28.0 "
        "the page is padded if the layer's backend allows it; from 0.29.0 on every layer but MLA can be "
        "padded.\n\n"
        "Models with full attention only never come here: they form one group with mixed pages."
    ),
    references=("vllm#42890",),
    bad=Example(version="0.20.2", command="vllm serve google/gemma-4-26B-A4B-it --kv-cache-dtype fp8_per_token_head"),
    good=Example(version="0.20.2", command="vllm serve google/gemma-4-26B-A4B-it --kv-cache-dtype fp8"),
    claims=(PagesNotUnifiable,),
    check=check,
)
