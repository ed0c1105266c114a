"""KV405: fewer GPUs than ranks."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.failures import TooFewGpus
from kvplan.engine.values import Plan
from kvplan.rules import words
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV405"


def check(plan: Plan) -> Iterator[Finding]:
    """At most one finding."""
    for _, facts in plan.failures(TooFewGpus):
        ranks = words.counted(facts.ranks, "GPU")
        yield Finding(
            rule=CODE,
            severity=Severity.ERROR,
            message=(f"the launch needs {ranks} (tensor x pipeline parallel size) and has {words.number(facts.gpus)}"),
            options=("--tensor-parallel-size", "--pipeline-parallel-size"),
            fix=f"give it {ranks}, or --distributed-executor-backend ray over several nodes",
        )


RULE = Rule(
    code=CODE,
    name="too-few-gpus",
    severity=Severity.ERROR,
    summary="The launch needs more GPUs than it is given.",
    explanation=(
        "vLLM counts the GPUs it sees before anything is loaded: unless a distributed executor is chosen or "
        "`--nnodes` is set, tensor x pipeline ranks must fit on this machine. In a container only the GPUs of its "
        "resource limits count.\n\n"
        "Ask for as many GPUs as there are ranks, or make the parallel sizes smaller. Give kvplan the number of "
        "GPUs as in `--gpu h200:8`; `kvplan scan` reads it from the manifest."
    ),
    bad=Example(version="0.33.0", gpu="h200:4", command="vllm serve zai-org/GLM-5.2-FP8 --tensor-parallel-size 8"),
    good=Example(version="0.33.0", gpu="h200:8", command="vllm serve zai-org/GLM-5.2-FP8 --tensor-parallel-size 8"),
    claims=(TooFewGpus,),
    check=check,
)
