"""KV404: a pipeline that cannot be made of this model."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.failures import EmptyStage, PartUnnamed, PipelinePartition, PipelineUnsupported, StageRefused
from kvplan.engine.values import Plan
from kvplan.rules import words
from kvplan.rules.failures import said
from kvplan.rules.rule import Advice, Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV404"
FLAG = "--pipeline-parallel-size"
PARTITION = "VLLM_PP_LAYER_PARTITION"


def check(plan: Plan) -> Iterator[Finding]:
    """One finding per failing check."""
    name, release = plan.checkpoint.name, words.release_name(plan)
    size = plan.launch.get("pipeline_parallel_size")
    stages = f"{FLAG} {size}" if isinstance(size, int) else FLAG
    layers = f" of {plan.geometry.num_layers} layers" if plan.geometry else ""
    instead = f"drop {FLAG} and use --tensor-parallel-size"
    for error, _ in plan.failures(PartUnnamed):
        yield _finding(
            f"{release} cannot split {name} over pipeline stages: its class names no architecture for the language "
            f"model inside ({said(error)})",
            f"use vLLM 0.30.0 or later, or {instead}",
        )
    for _, facts in plan.failures(PipelineUnsupported):
        if facts.draft:
            yield _finding(
                f"the draft of {name} does not support pipeline parallelism in {release}",
                f"use vLLM 0.30.0 or later, or {instead}",
            )
        else:
            yield _finding(f"{name} does not support pipeline parallelism in {release}", instead)
    for error, _ in plan.failures(EmptyStage):
        yield _finding(
            f"{stages} leaves a stage{layers} without any ({said(error)})", "give every stage a layer that has a cache"
        )
    for error, stage in plan.failures(StageRefused):
        held = f"layers {stage.start} to {stage.end - 1}" if stage.end > stage.start else "no layers"
        yield _finding(
            f"{name} cannot be built in {release} with {held} in pipeline stage {stage.stage + 1}: its class asks "
            f"every stage for a layer with routed experts, or for more layers before it ({said(error)})",
            f"give every stage such a layer with {PARTITION}, or {instead}",
        )
    for error, _ in plan.failures(PipelinePartition):
        yield _finding(
            f"{stages} and {PARTITION} do not make a pipeline{layers} ({said(error)})",
            f"give {PARTITION} one number per stage that add up to the layers, or leave it out",
        )


def _finding(message: str, fix: str) -> Finding:
    return Finding(rule=CODE, severity=Severity.ERROR, message=message, options=(FLAG,), fix=fix)


RULE = Rule(
    code=CODE,
    advice=Advice.WHERE_NOTHING_WORKS,
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
    claims=(PipelinePartition, PipelineUnsupported, EmptyStage, PartUnnamed, StageRefused),
    check=check,
)
