"""KV121: the config needs code from the model's repository."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.values import Plan
from kvplan.rules import words
from kvplan.rules.failures import errors, fact
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV121"
FLAG = "--trust-remote-code"


def check(plan: Plan) -> Iterator[Finding]:
    """At most one finding."""
    for error in errors(plan, "remote_code"):
        code = fact(error, "code")
        comes_with = (
            f"the config comes with code of its own ({code})" if code else "the config names no code of its own"
        )
        yield Finding(
            rule=CODE,
            severity=Severity.ERROR,
            message=(
                f"neither {words.release_name(plan)} nor transformers has a config class for model type "
                f"{fact(error, 'model_type')}: {comes_with}"
            ),
            options=(FLAG,),
            fix=f"add {FLAG} once you trust the repository's code" + ("" if code else ", if it has any"),
        )


RULE = Rule(
    code=CODE,
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
    claims=("remote_code",),
    check=check,
)
