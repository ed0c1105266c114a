"""KV301: no attention backend can serve these layers on this GPU."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.facade import is_packed, is_quantised
from kvplan.engine.failures import NoBackend
from kvplan.engine.values import BackendChoice, Plan
from kvplan.rules import words
from kvplan.rules.failures import indices
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV301"
_DTYPE = "kv_cache_dtype not supported"
_BLOCK = "block_size not supported"


def check(plan: Plan) -> Iterator[Finding]:
    """One finding per failing choice."""
    for _, facts in plan.failures(NoBackend):
        recorded = next((choice for choice in plan.backends if choice.backend is None), None)
        choice = recorded or BackendChoice(None, indices(plan, facts), facts.cache_dtype)
        yield _finding(plan, facts, choice)


def _finding(plan: Plan, facts: NoBackend, choice: BackendChoice) -> Finding:
    """Words for one choice: the block size, the cache dtype, or the model's attention itself is what none takes."""
    block_size = plan.launch.get("block_size")
    if block_size is not None and any(set(reasons) == {_BLOCK} for _, reasons in choice.rejected):
        what = f"takes block size {block_size} with cache dtype {choice.cache_dtype}"
        option = "--block-size"
        fix = "drop --block-size: the backend then chooses its own"
    elif choice.dtypes_with_backend or _all_refuse(choice, _DTYPE):
        what = f"takes cache dtype {choice.cache_dtype} for this model"
        option = "--kv-cache-dtype"
        fix = _other_dtype(plan, choice)
    else:
        what = f"can serve this model's {_attention(facts)}"
        option = "--gpu"
        fix = "use another GPU, or a release that supports this model on it"
    return Finding(
        rule=CODE,
        severity=Severity.ERROR,
        message=f"{words.release_name(plan)} has no attention backend on {words.gpu_name(plan)} that {what}"
        f"{_closest(choice)}",
        layers=choice.layers,
        options=(option,),
        fix=fix,
    )


def _all_refuse(choice: BackendChoice, reason: str) -> bool:
    return bool(choice.rejected) and all(reason in reasons for _, reasons in choice.rejected)


def _attention(facts: NoBackend) -> str:
    """What kind of attention it is."""
    if facts.mla:
        return "sparse MLA" if facts.sparse else "MLA"
    return f"attention with head size {facts.head_size}"


def _other_dtype(plan: Plan, choice: BackendChoice) -> str:
    """The dtypes that do have a backend here: packed ones only for those who asked for one, plain ones only if they
    are the model's own."""
    asked = choice.cache_dtype
    fitting = {"auto", plan.settings.model_dtype if plan.settings is not None else None}
    usable = [
        name
        for name in choice.dtypes_with_backend
        if (is_packed(asked) or not is_packed(name)) and (is_quantised(name) or name in fitting)
    ]
    if usable:
        return f"--kv-cache-dtype {words.listed(usable, 'or')}"
    return f"no cache dtype has a backend here in {words.release_name(plan)}: use another release or GPU"


def _closest(choice: BackendChoice) -> str:
    """The backend with the fewest objections, as vLLM words them; the cache dtype is the easiest to change."""
    if not choice.rejected:
        return ""
    name, reasons = min(choice.rejected, key=lambda row: (len(row[1]), _DTYPE not in row[1]))
    return f"; closest is {name}: {', '.join(reasons)}"


RULE = Rule(
    code=CODE,
    name="no-backend",
    severity=Severity.ERROR,
    summary="No attention backend takes this cache dtype on this GPU.",
    explanation=(
        "For each layer vLLM goes through a list of attention backends and takes the first that accepts the "
        "layer's head size, dtype, cache dtype, block size, GPU and kind of attention. When none does, "
        "start-up stops with `No valid attention backend found` and a list of reasons for each backend.\n\n"
        "Typical: `fp8_e4m3` for sparse MLA on Hopper before 0.31.0 (FLASHMLA_SPARSE wants the word `fp8` or "
        "`fp8_ds_mla`), which is also what a ModelOpt checkpoint makes of `auto`; `fp8_e5m2` with MLA; sparse "
        "MLA on compute capability 8.x; a block size that the only possible backend does not take.\n\n"
        "The fix names the cache dtypes that find a backend for the same model, GPU and release."
    ),
    bad=Example(version="0.30.0", command="vllm serve GLM-5.2-FP8 -tp 8 --kv-cache-dtype fp8_e4m3"),
    good=Example(version="0.31.0", command="vllm serve GLM-5.2-FP8 -tp 8 --kv-cache-dtype fp8_e4m3"),
    claims=(NoBackend,),
    check=check,
)
