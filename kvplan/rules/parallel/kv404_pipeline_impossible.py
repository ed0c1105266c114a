"""KV404: a pipeline that cannot be made of this model."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.values import Plan
from kvplan.rules import words
from kvplan.rules.failures import errors, said
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV404"
FLAG = "--pipeline-parallel-size"
PARTITION = "VLLM_PP_LAYER_PARTITION"


def check(plan: Plan) -> Iterator[Finding]:
    """One finding per failing check."""
    size = plan.launch.get("pipeline_parallel_size")
    stages = f"{FLAG} {size}" if isinstance(size, int) else FLAG
    for error in errors(plan, "pipeline_partition", "pipeline_unsupported", "empty_stage", "part_unnamed"):
        if error.code == "part_unnamed":
            message = (
                f"{words.release_name(plan)} cannot split {plan.checkpoint.name} over pipeline stages: its class names "
                f"no architecture for the language model inside ({said(error)})"
            )
            fix = f"use vLLM 0.30.0 or later, or drop {FLAG} and use --tensor-parallel-size"
        elif error.code == "pipeline_unsupported":
            drafts = "the draft of " if error.facts.get("draft") else ""
            message = (
                f"{drafts}{plan.checkpoint.name} does not support pipeline parallelism in {words.release_name(plan)}"
            )
            fix = f"drop {FLAG} and use --tensor-parallel-size"
            if drafts:
                fix = f"use vLLM 0.30.0 or later, or {fix}"
        else:
            layers = f" of {plan.geometry.num_layers} layers" if plan.geometry else ""
            message = f"{stages} and {PARTITION} do not make a pipeline{layers} ({said(error)})"
            fix = f"give {PARTITION} one number per stage that add up to the layers, or leave it out"
            if error.code == "empty_stage":
                message = f"{stages} leaves a stage{layers} without any ({said(error)})"
                fix = "give every stage a layer that has a cache"
            elif PARTITION not in plan.launch.environment:
                message = f"{stages} does not make a pipeline{layers} ({said(error)})"
                fix = f"lower {FLAG}"
        yield Finding(rule=CODE, severity=Severity.ERROR, message=message, options=(FLAG,), fix=fix)


RULE = Rule(
    code=CODE,
    name="pipeline-impossible",
    severity=Severity.ERROR,
    summary="The pipeline stages do not fit the model.",
    explanation=(
        "Pipeline parallelism gives each stage a run of layers: equal shares, the remainder spread over the "
        "middle stages. `VLLM_PP_LAYER_PARTITION=20,12` sets the shares by hand; it must name one number for "
        "each stage and add up to the model's layers. Some model classes do not support pipelines at all, and "
        "Qwen3-VL's do not in the releases from 0.17.1 to 0.29.0.\n\n"
        "Correct the partition or the number of stages. The stage with the most cache decides the number of "
        "blocks for all."
    ),
    bad=Example(version="0.33.0", command="VLLM_PP_LAYER_PARTITION=10,10 vllm serve meta-llama/Llama-3.1-8B -pp 2"),
    good=Example(version="0.33.0", command="VLLM_PP_LAYER_PARTITION=20,12 vllm serve meta-llama/Llama-3.1-8B -pp 2"),
    claims=("pipeline_partition", "pipeline_unsupported", "empty_stage", "part_unnamed"),
    check=check,
)
