"""KV311: the chosen backend's implementation refuses a layer that selection let through."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.failures import ImplementationRefuses
from kvplan.engine.values import Plan
from kvplan.rules import words
from kvplan.rules.failures import indices, said
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV311"
_PLAIN = frozenset({"auto", "float16", "bfloat16"})


def check(plan: Plan) -> Iterator[Finding]:
    """At most one finding."""
    for error, facts in plan.failures(ImplementationRefuses):
        backend, cache_dtype = facts.backend, facts.cache_dtype
        option, fix = _fix(plan, backend, cache_dtype)
        yield Finding(
            rule=CODE,
            severity=Severity.ERROR,
            message=(
                f"{words.release_name(plan)} picks {backend} on {words.gpu_name(plan)}, which then refuses the layer "
                f"with cache dtype {cache_dtype} ({said(error)})"
            ),
            layers=indices(plan, facts),
            options=(option,),
            fix=fix,
        )


def _fix(plan: Plan, backend: str, cache_dtype: str) -> tuple[str, str]:
    """The option to change: the backend where it was asked for, else the cache dtype."""
    if plan.launch.get("attention_backend") is not None and (backend == "FLEX_ATTENTION" or cache_dtype in _PLAIN):
        return "--attention-backend", "drop --attention-backend: vLLM then chooses one that takes the layer"
    return "--kv-cache-dtype", "--kv-cache-dtype auto"


RULE = Rule(
    code=CODE,
    name="kernel-refuses-layer",
    severity=Severity.ERROR,
    summary="The attention backend that was selected refuses the layer when it is built.",
    explanation=(
        "Backends are selected by what their classes claim to support; the implementation looks again when a layer "
        "is built. Triton claims fp8 caches on every GPU, but from 0.24.0 on (Triton MLA from 0.26.0 on) it refuses "
        "them below compute capability 8.9, and bfloat16 caches below 8.0: a T4 or an A100 with `--kv-cache-dtype "
        "fp8` passes the selection and stops while the model is loaded. Before, the same launch started and failed "
        "in the kernel. FLEX_ATTENTION refuses models with a logits soft cap (Gemma 2) and layers that share "
        "a cache.\n\n"
        "Take `--kv-cache-dtype auto`, or another backend where one was asked for."
    ),
    bad=Example(version="0.33.0", gpu="t4", command="vllm serve meta-llama/Llama-2-7b-hf --kv-cache-dtype fp8"),
    good=Example(version="0.33.0", gpu="t4", command="vllm serve meta-llama/Llama-2-7b-hf --dtype float16"),
    claims=(ImplementationRefuses,),
    check=check,
)
