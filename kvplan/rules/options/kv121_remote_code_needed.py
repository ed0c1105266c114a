"""KV121: the config needs code from the model's repository."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.failures import RemoteCodeNeeded
from kvplan.engine.values import Plan
from kvplan.rules import words
from kvplan.rules.rule import Advice, Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV121"
FLAG = "--trust-remote-code"


def check(plan: Plan) -> Iterator[Finding]:
    """At most one finding."""
    for _, facts in plan.failures(RemoteCodeNeeded):
        comes_with = (
            f"the config comes with code of its own ({facts.class_path})"
            if facts.class_path
            else "the config names no code of its own"
        )
        yield Finding(
            rule=CODE,
            severity=Severity.ERROR,
            message=(
                f"neither {words.release_name(plan)} nor transformers has a config class for model type "
                f"{facts.model_type}: {comes_with}"
            ),
            options=(FLAG,),
            fix=f"add {FLAG} once you trust the repository's code" + ("" if facts.class_path else ", if it has any"),
        )


RULE = Rule(
    code=CODE,
    advice=Advice.WHERE_NOTHING_WORKS,
    name="remote-code-needed",
    severity=Severity.ERROR,
    summary="The model's config can only be read with code from its repository.",
    explanation=(
        "A config whose `auto_map` names a config class is read with code from the model's repository, unless "
        "vLLM or transformers has a class for the model type. vLLM does not run that code unless told to, and stops "
        "before anything else is checked. Newer releases bring classes for more models: kimi_k2 from 0.18.1 on.\n\n"
        "Read the code and add `--trust-remote-code`, or use a release that has a class for the model. kvplan plans "
        "the rest as though the flag were there."
    ),
    bad=Example(version="0.16.0", command="vllm serve moonshotai/Kimi-K2-Instruct -tp 8"),
    good=Example(version="0.16.0", command="vllm serve moonshotai/Kimi-K2-Instruct -tp 8 --trust-remote-code"),
    claims=(RemoteCodeNeeded,),
    check=check,
)
