"""KV402: tensor-parallel ranks that hold the same cache."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.facade import Kind
from kvplan.engine.values import Plan
from kvplan.rules import words
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV402"
FLAG = "--tensor-parallel-size"


def check(plan: Plan) -> Iterator[Finding]:
    """At most one finding: for latent attention, else for the layers with the fewest KV heads."""
    settings, geometry = plan.settings, plan.geometry
    if settings is None or geometry is None or settings.tensor_parallel < 2 or not plan.layers:
        return
    size = settings.tensor_parallel
    if settings.decode_context_parallel > 1 or settings.prefill_context_parallel > 1:
        return
    latent = tuple(layer.index for layer in geometry.layers if layer.kind is Kind.MLA)
    if latent:
        yield Finding(
            rule=CODE,
            severity=Severity.NOTE,
            message=(
                f"each of the {size} tensor-parallel ranks stores all of the MLA cache: tensor parallelism does not "
                "divide it"
            ),
            options=(FLAG,),
            fix="--decode-context-parallel-size or --data-parallel-size divide the cache or the requests instead",
        )
        return
    few = [layer for layer in geometry.layers if layer.kind is Kind.ATTENTION and 0 < layer.total_kv_heads < size]
    if not few:
        return
    heads = min(layer.total_kv_heads for layer in few)
    concerned = tuple(sorted({layer.index for layer in few}))
    yield Finding(
        rule=CODE,
        severity=Severity.NOTE,
        message=(
            f"{words.layers(concerned)}: {words.counted(heads, 'KV head')} for {size} tensor-parallel ranks, so each "
            f"head is stored {size // heads} times"
        ),
        layers=concerned,
        options=(FLAG,),
        fix=f"{FLAG} {heads} with --data-parallel-size for the other GPUs stores each head once",
    )


RULE = Rule(
    code=CODE,
    name="cache-replicated",
    severity=Severity.NOTE,
    summary="Several tensor-parallel ranks store the same part of the cache.",
    explanation=(
        "Tensor parallelism splits the cache by KV heads. A model with 4 KV heads on 8 ranks stores each head "
        "twice. MLA has one latent row for all heads, so every rank stores all of it: with 8 ranks the same "
        "bytes lie in 8 GPUs. Calculators that divide the cache by the number of GPUs are wrong by that "
        "factor.\n\n"
        "Decode context parallelism (`--decode-context-parallel-size`) splits the cache by tokens instead; "
        "data parallelism splits the requests."
    ),
    references=("vllm#51454",),
    bad=Example(version="0.33.0", command="vllm serve GLM-5.2-FP8 -tp 8"),
    good=Example(version="0.33.0", command="vllm serve meta-llama/Llama-3.1-8B -tp 8"),
    check=check,
)
