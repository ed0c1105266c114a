"""KV602: the pool is too small for one request of the longest length."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.facade import is_quantised
from kvplan.engine.failures import PoolTooSmall
from kvplan.engine.values import Plan
from kvplan.rules import words
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV602"
FLAG = "--max-model-len"


def check(plan: Plan) -> Iterator[Finding]:
    """At most one finding."""
    for _, facts in plan.failures(PoolTooSmall):
        yield Finding(
            rule=CODE,
            severity=Severity.ERROR,
            message=(
                f"one request of {words.number(facts.max_model_len)} tokens needs {words.gib(facts.needed_bytes)}, and "
                f"{_room(plan, facts.available_bytes)}{_longest(facts.longest_request_tokens)}"
            ),
            options=(FLAG, "--gpu-memory-utilization"),
            fix=_fix(plan, facts.longest_request_tokens),
        )


def _room(plan: Plan, available: int) -> str:
    """What there is: measured, or the most that there can be."""
    estimate = None if plan.capacity is None else plan.capacity.estimate
    if estimate is None:
        return f"{words.gib(available)} is available"
    weights = "even without weights" if estimate.weight_bytes is None else "once the weights are loaded"
    return f"{words.gpu_name(plan)} has at most {words.gib(available)} for the cache {weights}"


def _longest(longest: int) -> str:
    return f"; the longest that fits has {words.number(longest)} tokens" if longest > 0 else "; no length fits"


def _fix(plan: Plan, longest: int) -> str:
    """The length that fits, then what makes room."""
    ways = [f"{FLAG} {longest}"] if longest else []
    settings = plan.settings
    if settings is not None and settings.num_gpu_blocks_override is not None:
        ways.append("drop --num-gpu-blocks-override")
    elif settings is not None and settings.kv_cache_memory_bytes is not None:
        ways.append("raise --kv-cache-memory-bytes")
    else:
        ways.append("raise --gpu-memory-utilization")
    if (
        settings is not None
        and settings.hybrid_manager_disabled
        and any(layer.sliding_window for layer in (plan.geometry.layers if plan.geometry else ()))
    ):
        ways.append("drop --disable-hybrid-kv-cache-manager")
    if settings is not None and not is_quantised(settings.cache_dtype_after_load):
        ways.append("--kv-cache-dtype fp8 (about half the bytes)")
    return ", or ".join(ways)


RULE = Rule(
    code=CODE,
    name="request-does-not-fit",
    severity=Severity.ERROR,
    summary="The cache cannot hold one request of --max-model-len tokens.",
    explanation=(
        "Before it serves, vLLM checks that one request of `--max-model-len` tokens (by default the model's "
        "longest context) fits into the cache, and stops otherwise. The need is not a textbook formula: "
        "blocks are counted whole for each group, sliding-window layers reserve their window and the tokens "
        "in flight (from 0.26.0 on for every batch in flight, usually two), and from 0.29.0 on one block is "
        "kept back. In 0.16.0 to 0.18.1 only the first group is counted, so that a launch can pass there and "
        "fail after an upgrade.\n\n"
        "kvplan searches the longest length that passes the release's own check. Use that, make room, or "
        "halve the bytes with an fp8 cache."
    ),
    references=("vllm#16118", "vllm#49878"),
    bad=Example(version="0.33.0", available="4GiB", command="vllm serve meta-llama/Llama-3.1-8B"),
    good=Example(
        version="0.33.0", available="4GiB", command="vllm serve meta-llama/Llama-3.1-8B --max-model-len 32752"
    ),
    claims=(PoolTooSmall,),
    check=check,
)
