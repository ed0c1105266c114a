"""KV216: what the checkpoint says about its quantisation is refused."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.failures import CacheSchemeRefused, CheckpointQuantisationRefused
from kvplan.engine.values import Plan
from kvplan.rules import words
from kvplan.rules.failures import indices, said
from kvplan.rules.rule import Advice, Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV216"
_COMMAND = (
    "vllm serve meta-llama/Llama-3.1-8B --hf-overrides "
    """'{"quantization_config": {"quant_method": "compressed-tensors", "kv_cache_scheme": """
    """{"num_bits": 8, "type": "float", "strategy": "tensor", "symmetric": %s}}}'"""
)


def check(plan: Plan) -> Iterator[Finding]:
    """At most one finding."""
    for error, scheme in plan.failures(CacheSchemeRefused):
        yield Finding(
            rule=CODE,
            severity=Severity.ERROR,
            message=(
                f"{words.release_name(plan)} refuses the checkpoint's kv_cache_scheme for its "
                f"{scheme.field} ({said(error)})"
            ),
            layers=indices(plan, scheme),
            fix=(
                "correct quantization_config.kv_cache_scheme in config.json: num_bits 8, type float, strategy tensor "
                "or attn_head, symmetric true"
            ),
        )
    for error, section in plan.failures(CheckpointQuantisationRefused):
        since = section.served_since
        yield Finding(
            rule=CODE,
            severity=Severity.ERROR,
            message=f"{words.release_name(plan)} refuses the checkpoint's quantisation section ({said(error)})",
            fix=(
                f"use vLLM {since} or later"
                if since
                else f"use a {section.method} checkpoint with an algorithm and the fields that vLLM knows"
            ),
        )


RULE = Rule(
    code=CODE,
    advice=Advice.WHERE_NOTHING_WORKS,
    name="checkpoint-quantisation-refused",
    severity=Severity.ERROR,
    summary="vLLM refuses what the checkpoint's config says about its quantisation or its cache.",
    explanation=(
        "A compressed-tensors checkpoint may declare a `kv_cache_scheme`. Every ordinary attention layer checks "
        "it, whatever the cache dtype: 8 bits and type float, strategy `tensor` or `attn_head`, and `symmetric` "
        "true. A scheme without `symmetric` is refused too, as older exporters leave it out. MLA layers never look "
        "at it.\n\n"
        "A ModelOpt section must name an algorithm that the release knows. Two forms exist. The older one "
        "(`hf_quant_config.json` with `producer` and a nested `quantization`) takes FP8 and NVFP4, and "
        "MIXED_PRECISION from 0.33.0 on; the newer one (`quant_method: modelopt`) has MIXED_PRECISION from 0.17 "
        "and W4A16_NVFP4 from 0.21. NVFP4 in the older form needs `group_size`, `kv_cache_quant_algo` and "
        "`exclude_modules`; MIXED_PRECISION needs `quantized_layers`.\n\n"
        "Other methods ask for less: GPTQ for symmetric weights of 4 or 8 bits, AWQ for 4 bits, FP8 with blocks for "
        "dynamic activations, Quark for rules of the layers in `kv_cache_group`. A list of modules that stay "
        "unquantised must name all of `q_proj`, `k_proj` and `v_proj` of a layer or none, and so for `gate_proj` and "
        "`up_proj`: vLLM builds them in one piece. The same holds for the projections of experts.\n\n"
        "Correct the config, or use a release that knows the algorithm."
    ),
    bad=Example(version="0.33.0", command=_COMMAND % "null"),
    good=Example(version="0.33.0", command=_COMMAND % "true"),
    claims=(CacheSchemeRefused, CheckpointQuantisationRefused),
    check=check,
)
