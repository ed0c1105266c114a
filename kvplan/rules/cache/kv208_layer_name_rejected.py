"""KV208: with a skip list vLLM reads the layer number out of the module name, and this name has not just one."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.failures import LayerNameRejected
from kvplan.engine.values import Plan
from kvplan.rules import words
from kvplan.rules.cache.attention import SKIP_FLAG
from kvplan.rules.failures import indices, said
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV208"
LONGCAT = '{"architectures": ["LongcatFlashForCausalLM"], "num_layers": 14, "zero_expert_type": "identity"}'
"""What makes a small MLA model of the catalog one with LongCat-Flash's layer names, for the example."""


def check(plan: Plan) -> Iterator[Finding]:
    """At most one finding."""
    for error, facts in plan.failures(LayerNameRejected):
        yield Finding(
            rule=CODE,
            severity=Severity.ERROR,
            message=(
                f"{words.release_name(plan)} cannot read one layer number out of the name `{facts.layer}`, which any "
                f"skip list makes it do ({said(error)})"
            ),
            layers=indices(plan, facts),
            options=(SKIP_FLAG,),
            fix=f"drop {SKIP_FLAG}: this model cannot be served with one",
        )


RULE = Rule(
    code=CODE,
    name="layer-name-rejected",
    severity=Severity.ERROR,
    summary="The model's layer names do not have exactly one number, so any skip list stops start-up.",
    explanation=(
        "To compare a layer with the skip list, vLLM takes the one number out of the module's name "
        "(`model.layers.7.self_attn.attn`). Some models have two, LongCat-Flash "
        "`model.layers.7.self_attn.1.attn` for one: the assertion that there is exactly one number fails "
        "while the model is built. It is only made when the list is not empty, by `Attention` from 0.19.1 on "
        "and by `MLAAttention` from 0.26.0 on. A list that matches no layer is enough.\n\n"
        "Serve such a model without a skip list."
    ),
    since="0.19.1",
    bad=Example(
        version="0.33.0",
        gpu="b200",
        command=f"vllm serve DeepSeek-V2-Lite --hf-overrides '{LONGCAT}' --kv-cache-dtype-skip-layers 0",
    ),
    good=Example(version="0.33.0", gpu="b200", command=f"vllm serve DeepSeek-V2-Lite --hf-overrides '{LONGCAT}'"),
    claims=(LayerNameRejected,),
    check=check,
)
