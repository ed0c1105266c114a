"""KV104: an option given more than once."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.values import Plan
from kvplan.rules import words
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV104"


def check(plan: Plan) -> Iterator[Finding]:
    """One finding per repeated option."""
    for remark in plan.launch.remarks:
        if remark.kind != "repeated_option":
            continue
        name = remark.option.lstrip("-").replace("-", "_")
        setting = plan.launch.settings.get(name)
        kept = "" if setting is None else f" ({_written(setting.value)})"
        yield Finding(
            rule=CODE,
            severity=Severity.WARNING,
            message=f"{remark.option} is given more than once: vLLM keeps only the last{kept}",
            options=(remark.option,),
            location=remark.location,
            fix=f"give {remark.option} once, with every value after it",
        )


def _written(value: object) -> str:
    """A parsed value as one would type it."""
    return words.tokens(map(str, value)) if isinstance(value, list | tuple) else str(value)


RULE = Rule(
    code=CODE,
    name="repeated-option",
    severity=Severity.WARNING,
    summary="An option is given more than once; only the last one counts.",
    explanation=(
        "vLLM's parser does not gather repetitions. `--kv-cache-dtype-skip-layers 0 "
        "--kv-cache-dtype-skip-layers 1` is the list `1`, not `0 1`. A value on the command line also "
        "replaces the whole list of a `--config` file.\n\n"
        "Give the option once: `--kv-cache-dtype-skip-layers 0 1`."
    ),
    bad=Example(
        version="0.33.0",
        command=(
            "vllm serve Llama-3.1-8B --kv-cache-dtype fp8 --kv-cache-dtype-skip-layers 0 --kv-cache-dtype-skip-layers 1"
        ),
    ),
    good=Example(
        version="0.33.0", command="vllm serve Llama-3.1-8B --kv-cache-dtype fp8 --kv-cache-dtype-skip-layers 0 1"
    ),
    check=check,
)
