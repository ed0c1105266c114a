"""KV105: vLLM would serve another model than the command seems to name."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.values import Plan
from kvplan.launch.values import Remark
from kvplan.rules.rule import Advice, Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV105"


def check(plan: Plan) -> Iterator[Finding]:
    """One finding per remark about the model's place."""
    for remark in plan.launch.remarks:
        if remark.kind == "positional_swallowed":
            fix = f"put the model first: vllm serve MODEL … {remark.option} …"
            yield _finding(remark, Severity.ERROR, remark.detail, fix)
        elif remark.kind == "positional_ignored":
            yield _finding(remark, Severity.ERROR, remark.detail, f"write --model {remark.option}")
        elif remark.kind == "default_model":
            yield _finding(remark, Severity.WARNING, remark.detail, "name the model: vllm serve MODEL …")


def _finding(remark: Remark, severity: Severity, message: str, fix: str) -> Finding:
    """The launch room's own words, with a fix."""
    option = remark.option if remark.option.startswith("-") else "--model"
    return Finding(rule=CODE, severity=severity, message=message, options=(option,), location=remark.location, fix=fix)


RULE = Rule(
    code=CODE,
    advice=Advice.ALONE,
    name="other-model-served",
    severity=Severity.ERROR,
    summary="The model name stands where vLLM does not read it, so another model is served.",
    explanation=(
        "`--kv-cache-dtype-skip-layers` takes every word up to the next option. In `vllm serve "
        "--kv-cache-dtype-skip-layers 0 1 MODEL` the model is the third token of the skip list, the command "
        "has no model left, and vLLM serves its default model without complaint. `python -m "
        "vllm.entrypoints.openai.api_server MODEL` does the same: that form reads the model from `--model` "
        "only.\n\n"
        "Put the model first: `vllm serve MODEL --kv-cache-dtype-skip-layers 0 1`."
    ),
    bad=Example(
        version="0.33.0",
        command="vllm serve --kv-cache-dtype fp8 --kv-cache-dtype-skip-layers 0 1 meta-llama/Llama-3.1-8B",
    ),
    good=Example(
        version="0.33.0",
        command="vllm serve meta-llama/Llama-3.1-8B --kv-cache-dtype fp8 --kv-cache-dtype-skip-layers 0 1",
    ),
    check=check,
)
