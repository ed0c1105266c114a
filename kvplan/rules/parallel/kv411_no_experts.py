"""KV411: expert parallelism on a model without experts."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.failures import NoExperts
from kvplan.engine.values import Plan
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV411"
FLAG = "--enable-expert-parallel"


def check(plan: Plan) -> Iterator[Finding]:
    """At most one finding."""
    for _, facts in plan.failures(NoExperts):
        yield Finding(
            rule=CODE,
            severity=Severity.ERROR,
            message=f"{FLAG} is for mixture-of-experts models, and {facts.architecture} has no experts",
            options=(FLAG,),
            fix=f"drop {FLAG}",
        )


RULE = Rule(
    code=CODE,
    name="no-experts",
    severity=Severity.ERROR,
    summary="Expert parallelism is asked for on a model without experts.",
    explanation=(
        "Expert parallelism spreads the experts of a mixture-of-experts model over the ranks. vLLM counts the "
        "experts that the config declares and refuses `--enable-expert-parallel` where there are none, before "
        "anything is loaded.\n\n"
        "Leave the option out for dense models."
    ),
    bad=Example(version="0.33.0", command="vllm serve meta-llama/Llama-3.1-8B -tp 2 --enable-expert-parallel"),
    good=Example(version="0.33.0", command="vllm serve Qwen/Qwen3-30B-A3B -tp 2 --enable-expert-parallel"),
    claims=(NoExperts,),
    check=check,
)
