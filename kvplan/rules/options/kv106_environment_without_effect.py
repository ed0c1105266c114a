"""KV106: an environment variable that vLLM does not read."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.values import Plan
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV106"
REPLACED = {
    "VLLM_ATTENTION_BACKEND": "--attention-backend {value}",
    "VLLM_KV_CACHE_DTYPE": "--kv-cache-dtype {value}",
    "VLLM_USE_V1": None,
}
"""Variables that many guides still name, and the flag that does the same today (None where nothing is needed)."""


def check(plan: Plan) -> Iterator[Finding]:
    """One finding per variable."""
    for remark in plan.launch.remarks:
        if remark.kind != "unknown_environment":
            continue
        name = remark.option
        flag = REPLACED.get(name)
        value = plan.launch.environment.get(name, "NAME")
        fix = f"drop it and pass {flag.format(value=value)}" if flag else f"drop {name}"
        yield Finding(
            rule=CODE,
            severity=Severity.WARNING,
            message=f"the environment variable {name} changes nothing: {remark.detail}",
            options=(name,),
            location=remark.location,
            fix=fix,
        )


RULE = Rule(
    code=CODE,
    name="environment-without-effect",
    severity=Severity.WARNING,
    summary="An environment variable that this release does not read.",
    explanation=(
        "`VLLM_ATTENTION_BACKEND` chose the attention backend long ago; no release from 0.16.0 on reads it. "
        "vLLM prints one warning about an unknown `VLLM_` variable among many lines and takes its own choice.\n\n"
        "Pass `--attention-backend NAME` instead, and look at what vLLM says when that backend is not "
        "possible."
    ),
    bad=Example(version="0.33.0", command="VLLM_ATTENTION_BACKEND=FLASHINFER vllm serve meta-llama/Llama-3.1-8B"),
    good=Example(version="0.33.0", command="vllm serve meta-llama/Llama-3.1-8B --attention-backend FLASHINFER"),
    check=check,
)
