"""KV410: tensor parallelism cuts quantised weights between blocks or groups."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.failures import WeightBlockSplit
from kvplan.engine.values import Plan
from kvplan.rules import words
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV410"
FLAG = "--tensor-parallel-size"


def check(plan: Plan) -> Iterator[Finding]:
    """One finding per weight that does not divide: of attention, and of what comes behind it."""
    for _, facts in plan.failures(WeightBlockSplit):
        ranks = facts.tensor_parallel
        has = f"{FLAG} {ranks} leaves each rank" if ranks > 1 else f"{plan.checkpoint.name} has"
        yield Finding(
            rule=CODE,
            severity=Severity.ERROR,
            message=(
                f"{has} {words.number(facts.size)} rows of {facts.weight}, which is no multiple of the checkpoint's "
                f"quantisation block of {facts.block}"
            ),
            options=(FLAG,),
            fix=_fix(facts),
        )


def _fix(facts: WeightBlockSplit) -> str:
    """Halve the tensor-parallel size until whole blocks are left; experts can also stay whole."""
    tensor = facts.tensor_parallel
    divisors = (tp for tp in range(tensor - 1, 0, -1) if tensor % tp == 0)
    smaller = next((tp for tp in divisors if facts.size * tensor // tp % facts.block == 0), None)
    fix = (
        f"{FLAG} {smaller}" if smaller else "a checkpoint that leaves this weight unquantised: no split makes it whole"
    )
    if facts.experts and not facts.expert_parallel:
        fix += ", or --enable-expert-parallel, which keeps each expert whole on one rank"
    return fix


RULE = Rule(
    code=CODE,
    name="weight-block-split",
    severity=Severity.ERROR,
    summary="Tensor parallelism cuts quantised weights between blocks or groups that share a scale.",
    explanation=(
        "Checkpoints such as Qwen3-32B-FP8 or DeepSeek-V3 have one scale for each block of 128 x 128 weights. Each "
        "rank must own whole blocks, so 128 has to divide the part of every weight that a rank gets: Qwen3-32B-FP8's "
        "MLP has 25,600 rows, 3,200 for each of 8 ranks, which is 25 blocks, and 1,600 for each of 16, which is not "
        "whole. vLLM checks it while the model is loaded. From 0.29.0 on weights of experts are re-cut into smaller "
        "blocks (64 or 32) where that helps; other weights are not. AWQ, AutoRound and compressed-tensors keep one "
        "scale for a group of rows, usually 128: the 29,568 rows of Qwen2.5-72B's MLP leave 3,696 to each of 8 ranks, "
        "which is no whole number of groups. Before 0.24.0 kernels also want 64 columns and 128 rows to divide what a "
        "rank gets.\n\n"
        "Lower `--tensor-parallel-size` and use pipeline or data parallelism for the rest of the GPUs; for experts "
        "`--enable-expert-parallel` also helps. kvplan checks the weights of Llama, Mistral, Mixtral, Gemma, Granite, "
        "Phi-3, Qwen2 to Qwen3.5, MiniMax-M2, DeepSeek, GLM, EXAONE 4, OLMo, Seed-OSS and Step 3.5 models, the experts "
        "of gpt-oss and Nemotron, and the vision towers of Qwen2.5-VL, Qwen3-VL, Qwen3.5 and MiniCPM-V 4.6."
    ),
    bad=Example(version="0.33.0", command="vllm serve Qwen/Qwen3-32B-FP8 -tp 16"),
    good=Example(version="0.33.0", command="vllm serve Qwen/Qwen3-32B-FP8 -tp 8"),
    claims=(WeightBlockSplit,),
    check=check,
)
