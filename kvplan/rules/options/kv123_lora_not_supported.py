"""KV123: adapters for a model class that takes none."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.failures import LoraUnsupported
from kvplan.engine.values import Plan
from kvplan.rules import words
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV123"
FLAG = "--enable-lora"


def check(plan: Plan) -> Iterator[Finding]:
    """At most one finding."""
    for _, facts in plan.failures(LoraUnsupported):
        yield _finding(plan, facts.architecture, Severity.ERROR, "refuses")
        return
    geometry = plan.geometry
    if not plan.launch.get("enable_lora") or geometry is None or geometry.runner_type == "draft":
        return
    if not geometry.takes_adapters:
        yield _finding(plan, geometry.architecture, Severity.ERROR, "loads the weights and then refuses")


def _finding(plan: Plan, architecture: str, severity: Severity, does: str) -> Finding:
    return Finding(
        rule=CODE,
        severity=severity,
        message=f"{words.release_name(plan)} {does} {FLAG} for {architecture}: the class takes no adapters",
        options=(FLAG,),
        fix=f"leave {FLAG} out",
    )


RULE = Rule(
    code=CODE,
    name="lora-not-supported",
    severity=Severity.ERROR,
    summary="The model's class takes no LoRA adapters.",
    explanation=(
        "Adapters can be put on the classes that implement SupportsLoRA; vLLM refuses --enable-lora for the others. "
        "From 0.33.0 on it says so at once, while the engine config is made. Earlier releases find out in the worker, "
        "after the weights were loaded (`LoRAModelRunnerMixin.load_lora_model`): the plan of such a launch says what "
        "was planned until then, and this finding that it does not start.\n\n"
        "Which classes have it is read from the sources of each release."
    ),
    bad=Example(version="0.33.0", command="vllm serve moonshotai/Kimi-Linear-48B-A3B-Instruct --enable-lora"),
    good=Example(version="0.33.0", command="vllm serve meta-llama/Llama-3.1-8B --enable-lora"),
    claims=(LoraUnsupported,),
    check=check,
)
