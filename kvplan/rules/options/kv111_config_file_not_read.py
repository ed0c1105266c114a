"""KV111: a config file that vLLM accepts and does not read."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.values import Plan
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV111"


def check(plan: Plan) -> Iterator[Finding]:
    """At most one finding."""
    for remark in plan.launch.remarks:
        if remark.kind == "config_not_read":
            yield Finding(
                rule=CODE,
                severity=Severity.WARNING,
                message=f"the config file is not read: {remark.detail}",
                options=(remark.option,),
                location=remark.location,
                fix="write --config FILE as two words",
            )


RULE = Rule(
    code=CODE,
    name="config-file-not-read",
    severity=Severity.WARNING,
    summary="`--config=FILE` is accepted and the file is not read.",
    explanation=(
        "vLLM looks for the word `--config` among the arguments and puts the file's options in its place "
        "before anything is parsed. `--config=FILE` is one word: nothing is put in, and the parser then "
        "accepts it as an option without effect. Every setting of the file is missing.\n\n"
        "Write `--config FILE` as two words."
    ),
    bad=Example(version="0.33.0", command="vllm serve meta-llama/Llama-3.1-8B --config=serve.yaml"),
    good=Example(version="0.33.0", command="vllm serve meta-llama/Llama-3.1-8B --kv-cache-dtype fp8"),
    check=check,
)
