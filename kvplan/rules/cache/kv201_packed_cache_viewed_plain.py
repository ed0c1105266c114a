"""KV201: the cache is allocated for a packed layout and viewed as a plain one."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.facade import TURBOQUANT_BITS, is_quantised
from kvplan.engine.failures import ViewMismatch, ViewRefused
from kvplan.engine.values import Plan, StartupError
from kvplan.history.backends import FLASH_ATTN_CLAIMS_ANY_QUANTISED
from kvplan.history.cache import MLA_SPEC_CARRIES_QUANT_MODE, VIEW_DERIVED_FROM_SPEC, VIEW_FOLLOWS_QUANT_MODE
from kvplan.history.packed import PAGE_FORMULA_IN_SPEC, TURBOQUANT_MODE
from kvplan.rules import words
from kvplan.rules.cache.attention import DTYPE_FLAG, SKIP_FLAG, of
from kvplan.rules.failures import indices, said
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV201"


def check(plan: Plan) -> Iterator[Finding]:
    """One finding per failing view."""
    for error, refused in plan.failures(ViewRefused):
        yield Finding(
            rule=CODE,
            severity=Severity.ERROR,
            message=(
                f"{words.release_name(plan)} stops when the cache is made: the backend of "
                f"{words.layers(indices(plan, refused)) if indices(plan, refused) else 'a layer'} is not told the "
                f"layer's cache dtype ({said(error)})"
            ),
            layers=indices(plan, refused),
            options=(DTYPE_FLAG,),
            fix=_fix_refused(plan),
        )
    for error, facts in plan.failures(ViewMismatch):
        concerned = _alike(plan, facts)
        yield Finding(
            rule=CODE,
            severity=Severity.ERROR,
            message=_message(plan, error, facts, concerned),
            layers=concerned,
            options=(DTYPE_FLAG,),
            fix=_fix(plan, facts),
        )


def _alike(plan: Plan, facts: ViewMismatch) -> tuple[int, ...]:
    """All layers with the backend, cache dtype and kind of the one that failed first."""
    failed = next((layer for layer in plan.layers if layer.name == facts.layer), None)
    if failed is None:
        return indices(plan, facts)
    kind = (failed.backend, failed.cache_dtype, failed.spec)
    return of(layer for layer in plan.layers if (layer.backend, layer.cache_dtype, layer.spec) == kind)


def _message(plan: Plan, error: StartupError, facts: ViewMismatch, concerned: tuple[int, ...]) -> str:
    """What is allocated, what is viewed, and what PyTorch says."""
    allocated, viewed = facts.allocated_bytes_per_token, facts.viewed_bytes_per_token
    where = words.layers(concerned) if concerned else "the cache"
    dtype = facts.cache_dtype
    kind = f" ({dtype})" if dtype else ""
    because = " because its quant mode is NONE" if _without_mode(facts) else ""
    sizes = (
        f"{where}{kind}: {words.number(allocated)} bytes a token are allocated and {words.number(viewed)} are "
        f"viewed{because}"
    )
    return f"{words.release_name(plan)} stops when the cache is made, {sizes} ({said(error)})"


def _without_mode(facts: ViewMismatch) -> bool:
    """Whether a quantised layer's spec was made without its quant mode."""
    return facts.quant_mode == "NONE" and is_quantised(facts.cache_dtype)


def _fix_refused(plan: Plan) -> str:
    """A release that tells the backend, or another cache dtype."""
    later = f"use vLLM {TURBOQUANT_MODE.since} or later"
    fits = not any(layer.cache_dtype in TURBOQUANT_BITS and layer.sliding_window for layer in plan.layers)
    return f"{later}, or pass {DTYPE_FLAG} fp8" if fits else f"pass {DTYPE_FLAG} fp8"


def _fix(plan: Plan, facts: ViewMismatch) -> str:
    """Another backend, another release, or another cache dtype."""
    dtype, backend = str(facts.cache_dtype), facts.backend
    if backend == "TURBOQUANT":
        return f"pass {DTYPE_FLAG} fp8: TurboQuant has no sliding window"
    if backend == "FLASH_ATTN" and dtype.endswith("_per_token_head"):
        later = words.release_after(FLASH_ATTN_CLAIMS_ANY_QUANTISED)
        return f"pass --attention-backend TRITON_ATTN, or use vLLM {later} or later"
    if backend == "FLASH_ATTN" and dtype.startswith("nvfp4"):
        return f"pass {DTYPE_FLAG} fp8: FLASH_ATTN has no {dtype} cache"
    if dtype == "int4_per_token_head":
        return (
            f"use vLLM {words.release_after(PAGE_FORMULA_IN_SPEC)} or later, or pass {DTYPE_FLAG} int8_per_token_head"
        )
    if dtype == "auto" and plan.skip.tokens:
        return f"drop {SKIP_FLAG}, or use vLLM {VIEW_FOLLOWS_QUANT_MODE.since} or later"
    if not plan.release.has(MLA_SPEC_CARRIES_QUANT_MODE) and _without_mode(facts):
        since = MLA_SPEC_CARRIES_QUANT_MODE.since
        return f"use vLLM {since} or later; on {plan.release.name} only {DTYPE_FLAG} auto starts"
    if not plan.release.has(VIEW_DERIVED_FROM_SPEC):
        return f"use vLLM {VIEW_DERIVED_FROM_SPEC.since} or later, where view and allocation cannot differ"
    return f"pass {DTYPE_FLAG} auto"


RULE = Rule(
    code=CODE,
    name="packed-cache-viewed-plain",
    severity=Severity.ERROR,
    summary="The cache is allocated for a packed layout and viewed as a plain one: start-up dies at the view.",
    explanation=(
        "Sparse MLA on FLASHMLA_SPARSE stores `fp8_ds_mla` rows: 656 bytes a token (512 fp8 values, 4 scales "
        "of 4 bytes, 64 bf16 RoPE values). In 0.25.x the spec of an MLA layer is made without its quant mode, "
        "so it says NONE. The same releases began to ask the backend for the shape of the cache by quant "
        "mode: with NONE they ask for the plain shape, 576 bytes a token. The buffer was sized with 656, and "
        "PyTorch refuses the view with `shape '[…, 64, 576]' is invalid for input of size …`.\n\n"
        "It happens to every model with sparse MLA (DeepSeek-V3.2, GLM-5 family) and `--kv-cache-dtype fp8` "
        "or `fp8_ds_mla` on these GPUs, with or without a skip list. 0.24.0 asked by the cache dtype and "
        "0.26.0 gives the layers their quant mode; both start. From 0.29.0 on the view is derived from the "
        "spec, and the two can no longer disagree.\n\n"
        "Other cases of the same kind: on Hopper FLASH_ATTN of 0.20 and 0.21 claims per-token-head and NVFP4 "
        "caches that it does not have; TurboQuant through 0.25 lays out sliding-window layers densely and views "
        "them packed; int4 per-token-head sliding-window layers from 0.25 to 0.27 are allocated at a byte a value; "
        "skipped layers on FLASHINFER beside an NVFP4 cache, or on TRITON_ATTN beside a per-token-head one, are "
        "viewed packed through 0.24; and the V1 model runner of 0.25 and 0.26 does not tell TurboQuant its cache "
        "dtype (`Unknown TurboQuant cache dtype: 'auto'`).\n\n"
        "Upgrade to 0.26.0 or later for sparse MLA. If you must stay on 0.25.x, only an unquantised cache "
        "(`--kv-cache-dtype auto`) starts."
    ),
    references=("vllm#48379", "vllm#48378", "vllm#48405", "vllm#48721", "vllm#50709"),
    until="0.28.0",
    bad=Example(version="0.25.1", command="vllm serve GLM-5.2-FP8 -tp 8 --kv-cache-dtype fp8"),
    good=Example(version="0.26.0", command="vllm serve GLM-5.2-FP8 -tp 8 --kv-cache-dtype fp8"),
    claims=(ViewMismatch, ViewRefused),
    check=check,
)
