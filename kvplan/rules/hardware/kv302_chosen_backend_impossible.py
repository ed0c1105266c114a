"""KV302: the attention backend that was asked for cannot serve these layers."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.failures import InvalidBackend
from kvplan.engine.values import Plan
from kvplan.rules import words
from kvplan.rules.failures import indices
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV302"
FLAG = "--attention-backend"


def check(plan: Plan) -> Iterator[Finding]:
    """At most one finding."""
    for error, facts in plan.failures(InvalidBackend):
        name = facts.requested
        reasons = _recorded(plan, name)
        why = ", ".join(reasons) if reasons else words.one_line(error.message) or "no reason given"
        given = _given(plan)
        which = f"{FLAG} {name}" if given else f"{name}, which {words.release_name(plan)} sets for this model,"
        yield Finding(
            rule=CODE,
            severity=Severity.ERROR,
            message=f"{which} is not possible on {words.gpu_name(plan)}: {why}",
            layers=indices(plan, facts),
            options=(FLAG,) if given else ("--kv-cache-dtype",),
            fix=_fix(reasons, given),
        )


def _given(plan: Plan) -> bool:
    """Whether the operator chose the backend, or the release did."""
    return plan.launch.get("attention_backend") is not None or plan.launch.get("attention_config") is not None


def _recorded(plan: Plan, name: str) -> tuple[str, ...]:
    """The reasons among the recorded choices."""
    for choice in plan.backends:
        for rejected, reasons in choice.rejected:
            if rejected == name.upper():
                return reasons
    return ()


def _fix(reasons: tuple[str, ...], given: bool) -> str:
    """What to drop, by the reason."""
    drop = f", or drop {FLAG}" if given else ""
    if reasons and all("block_size" in reason for reason in reasons):
        return f"drop --block-size{drop}"
    if reasons and all("kv_cache_dtype" in reason for reason in reasons):
        return f"choose another --kv-cache-dtype{drop}"
    if given:
        return f"drop {FLAG}: vLLM then takes the first backend that fits"
    return "use another release, or name another backend with --attention-backend"


RULE = Rule(
    code=CODE,
    name="chosen-backend-impossible",
    severity=Severity.ERROR,
    summary="The attention backend that was asked for cannot serve this model here.",
    explanation=(
        "With `--attention-backend NAME` only that backend is asked, for every layer of the model; there is "
        "no fallback. If it rejects one layer (GPU, head size, cache dtype, block size, sinks, sliding "
        "window, sparse or dense MLA), start-up stops with `Selected backend … is not valid for this "
        "configuration`.\n\n"
        "A skipped layer has another cache dtype than the others and is asked separately: a backend that "
        "takes fp8 only cannot serve it. Leave the choice to vLLM, or from 0.26.0 on choose per kind of layer "
        "with `--attention-config`."
    ),
    bad=Example(
        version="0.33.0", gpu="a100", command="vllm serve meta-llama/Llama-3.1-8B --attention-backend FLASHMLA"
    ),
    good=Example(
        version="0.33.0", gpu="a100", command="vllm serve meta-llama/Llama-3.1-8B --attention-backend FLASHINFER"
    ),
    claims=(InvalidBackend,),
    check=check,
)
