"""KV908: a value that the scanned file does not hold."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.values import Plan
from kvplan.rules.rule import Manifest, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV908"


def check(plan: Plan) -> Iterator[Finding]:
    """One finding per value."""
    for remark in plan.launch.remarks:
        if remark.kind != "value_not_known":
            continue
        named = remark.option.startswith("-")
        detail, _, fix = remark.detail.rpartition("; ")
        yield Finding(
            rule=CODE,
            severity=Severity.WARNING,
            message=f"{remark.option} is not known: {detail}" if named else f"not known: {detail}",
            options=(remark.option,) if named else (),
            location=remark.location,
            fix=fix,
        )


RULE = Rule(
    code=CODE,
    name="value-not-known",
    severity=Severity.WARNING,
    summary="The value of an option of a scanned launch is not in the file.",
    explanation=(
        "A variable that nothing in the file sets, the output of a command, a Secret or a `--config` file that is "
        "mounted from elsewhere: `kvplan scan` leaves such an option out, says so, and goes on with vLLM's "
        "default. The answer may be another one with the real value.\n\n"
        "Give variables with `--env NAME=VALUE`, scan the file together with the ConfigMap it mounts, or write "
        "the value in its place."
    ),
    bad=Manifest(
        file="serve.sh",
        content='pip install vllm==0.33.0\nvllm serve meta-llama/Llama-3.1-8B --max-model-len "$MAX_LEN"\n',
    ),
    good=Manifest(
        file="serve.sh",
        content=(
            'pip install vllm==0.33.0\nMAX_LEN=8192\nvllm serve meta-llama/Llama-3.1-8B --max-model-len "$MAX_LEN"\n'
        ),
    ),
    check=check,
)
