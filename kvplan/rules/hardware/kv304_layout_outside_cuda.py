"""KV304: a cache layout that only ROCm has."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.facade import LayerGeometry, rocm_block_size, rocm_page, rocm_slot, rotary_dim
from kvplan.engine.failures import LayoutOutsideCuda
from kvplan.engine.values import Plan
from kvplan.rules import words
from kvplan.rules.failures import indices
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV304"
FLAG = "--kv-cache-dtype"


def check(plan: Plan) -> Iterator[Finding]:
    """At most one finding."""
    for _, facts in plan.failures(LayoutOutsideCuda):
        dtype = facts.cache_dtype
        yield Finding(
            rule=CODE,
            severity=Severity.ERROR,
            message=(
                f"{dtype} is a layout of vLLM's ROCm backends: {words.release_name(plan)} finds no backend for it on "
                f"{words.gpu_name(plan)}{_size(plan, dtype, facts.layer)}"
            ),
            layers=indices(plan, facts),
            options=(FLAG,),
            fix=f"on CUDA pass {FLAG} fp8, or turboquant_4bit_nc where 4 bits are wanted",
        )


def _size(plan: Plan, dtype: str, name: str) -> str:
    """What a token of one layer would take on ROCm, where the layout exists for this head size."""
    layer = _layer(plan, name)
    if layer is None or plan.settings is None:
        return ""
    slot = rocm_slot(dtype, layer.head_size, rotary_dim(plan.checkpoint.text_config, layer.head_size))
    if slot is None:
        return f" (on ROCm it has no kernels for head size {layer.head_size} either)"
    heads = max(1, layer.total_kv_heads // plan.settings.tensor_parallel)
    block = rocm_block_size(dtype, plan.launch.get("block_size"))
    return (
        f" (on ROCm a token takes {heads} × {slot} = {words.number(heads * slot)} bytes a layer, a page of {block} "
        f"tokens {words.number(rocm_page(slot, heads, block))})"
    )


def _layer(plan: Plan, name: str) -> LayerGeometry | None:
    layers = plan.geometry.layers if plan.geometry is not None else ()
    return next((layer for layer in layers if layer.name == name), None)


RULE = Rule(
    code=CODE,
    name="layout-outside-cuda",
    severity=Severity.ERROR,
    summary="The cache dtype is a layout that only ROCm has; no backend on CUDA takes it.",
    explanation=(
        "`ultraquant_4bit` (from 0.32.0 on) and the `octave_*` layouts (from 0.33.0 on) are accepted by every "
        "build's parser, but only backends for AMD GPUs implement them. On an NVIDIA GPU vLLM finds no valid "
        "backend for the first layer that is to use them; UltraQuant's boundary layers, which keep the model's "
        "dtype, are built before that.\n\n"
        "UltraQuant takes head_size + 2 × (head_size / 32) bytes for the key and value of one head. Octave "
        "exists for head size 256 and takes 196 to 248 bytes, by preset and rotary part. The finding names the "
        "size so that a plan for both kinds of GPU can be compared; everything else about ROCm is outside "
        "kvplan.\n\n"
        "On CUDA take `fp8`, or one of the TurboQuant presets for fewer bits."
    ),
    since="0.32.0",
    bad=Example(version="0.33.0", command="vllm serve meta-llama/Llama-3.1-8B --kv-cache-dtype ultraquant_4bit"),
    good=Example(version="0.33.0", command="vllm serve meta-llama/Llama-3.1-8B --kv-cache-dtype turboquant_4bit_nc"),
    claims=(LayoutOutsideCuda,),
    check=check,
)
