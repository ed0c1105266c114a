"""KV914: what the launch names is only to be found on the machine that runs it."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.facade import known_to_machine_only
from kvplan.engine.values import Plan
from kvplan.rules.rule import Advice, Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV914"


def check(plan: Plan) -> Iterator[Finding]:
    """One finding for each thing."""
    for unseen in known_to_machine_only(plan.launch, plan.checkpoint):
        yield Finding(
            rule=CODE,
            severity=Severity.NOTE,
            message=f"{unseen.what} {unseen.name} was not looked at: it may change what is planned, or refuse to start",
            options=(unseen.option,),
            fix="compare with the log of one start of vLLM before you rely on the numbers",
        )


RULE = Rule(
    code=CODE,
    name="known-to-machine-only",
    severity=Severity.NOTE,
    summary="A class, plugin or revision that only the machine has takes part in the start.",
    explanation=(
        "A launch can name code that is not part of vLLM: a worker, scheduler or executor class, a plugin, a connector "
        "from a module, a class that proposes draft tokens. vLLM imports it and does what it says. Another revision of "
        "a model may have another config.json. kvplan sees none of it and plans as vLLM's own code would; the report "
        "says `exact: false`.\n\n"
        "A folder with the config.json of the revision, given as the model, is exact again."
    ),
    bad=Example(version="0.33.0", command="vllm serve Qwen/Qwen3-32B -tp 2 --worker-cls my_package.Worker"),
    good=Example(version="0.33.0", command="vllm serve Qwen/Qwen3-32B -tp 2 --worker-cls auto"),
    check=check,
    advice=Advice.ALONE,
)
