"""KV306: packed rows of latent attention for a model without rotary part."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.values import Plan
from kvplan.rules import words
from kvplan.rules.rule import Advice, Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV306"
_BACKEND = "FLASHINFER_MLA_SPARSE_SM120"


def check(plan: Plan) -> Iterator[Finding]:
    """At most one finding."""
    if plan.geometry is None:
        return
    rope_free = {
        layer.name for layer in plan.geometry.layers if layer.latent is not None and layer.latent.qk_rope_head_dim == 0
    }
    found = [
        layer
        for layer in plan.layers
        if layer.name in rope_free and layer.backend == _BACKEND and (layer.cache_dtype or "").endswith("_ds_mla")
    ]
    if not found:
        return
    yield Finding(
        rule=CODE,
        severity=Severity.WARNING,
        message=(
            f"{_BACKEND} on {words.gpu_name(plan)} packs the cache as {found[0].cache_dtype}, with room for a rotary "
            "part that this model does not have: builds of vLLM were reported to stop in the first run, `pe_dim must "
            "be 64`"
        ),
        layers=tuple(layer.index for layer in found),
        options=("--attention-backend", "--kv-cache-dtype"),
        fix="try one start of this release first, or serve the model on compute capability 9.0 or 10.0",
    )


RULE = Rule(
    code=CODE,
    name="packed-rows-without-rope",
    severity=Severity.WARNING,
    summary="A packed cache of latent attention is written for a model whose keys have no rotary part.",
    explanation=(
        "The `ds_mla` formats hold 512 latent elements, their scales, and 64 rotary elements a token. Models without a "
        "rotary part in their keys (GLM-5.3-Flash: `qk_rope_head_dim` 0) leave that room empty. On compute capability "
        "12 no other backend takes these models, and the kernel that writes the rows refused them in builds before "
        "and around 0.30.0: the start ends in warm-up with `concat_and_cache_mla … pe_dim must be 64 for "
        "fp8_ds_mla`.\n\n"
        "Rests on public reports: the kernel is compiled code, which kvplan does not read, so it cannot say which "
        "release is mended. The plan itself is what vLLM computes."
    ),
    bad=Example(
        version="0.33.0",
        gpu="rtxpro6000:8",
        command="vllm serve deepseek-ai/DeepSeek-V3.2 -tp 8 --hf-overrides '{\"qk_rope_head_dim\": 0}'",
    ),
    good=Example(version="0.33.0", gpu="rtxpro6000:8", command="vllm serve deepseek-ai/DeepSeek-V3.2 -tp 8"),
    references=("vllm#53963", "vllm#55773", "vllm#57578"),
    since="0.24.0",
    check=check,
    advice=Advice.ALONE,
)
