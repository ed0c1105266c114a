"""KV408: GPUs that the launch is given and does not use."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.values import Plan
from kvplan.launch.changing import Change
from kvplan.rules import words
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV408"


def check(plan: Plan) -> Iterator[Finding]:
    """At most one finding, for a launch that starts all its ranks on one machine."""
    launch, settings, count = plan.launch, plan.settings, plan.launch.hardware.count
    if settings is None or count is None or not plan.ok:
        return
    if launch.get("distributed_executor_backend") not in (None, "mp") or (launch.get("nnodes") or 1) > 1:
        return
    here = launch.get("data_parallel_size_local") or settings.data_parallel
    ranks = settings.tensor_parallel * settings.pipeline_parallel * settings.prefill_context_parallel * here
    if ranks >= count:
        return
    idle = words.counted(count - ranks, "GPU")
    yield Finding(
        rule=CODE,
        severity=Severity.NOTE,
        message=f"{idle} of {words.number(count)} {'is' if count - ranks == 1 else 'are'} idle: the launch uses "
        f"{words.number(ranks)}",
        options=("--tensor-parallel-size", "--pipeline-parallel-size", "--data-parallel-size"),
        changes=_using(plan, count),
    )


def _using(plan: Plan, count: int) -> tuple[Change, ...]:
    """Tensor-parallel sizes that use more, all GPUs first; else as many engines as fit."""
    settings = plan.settings
    assert settings is not None
    others = settings.pipeline_parallel * settings.prefill_context_parallel * settings.data_parallel
    more = range(count // others, settings.tensor_parallel, -1)
    wider = tuple(Change(values=(("tensor_parallel_size", size),)) for size in more if size * others == count)
    engines = count // (others // settings.data_parallel * settings.tensor_parallel)
    if engines > settings.data_parallel:
        wider += (Change(values=(("data_parallel_size", engines),)),)
    return wider


RULE = Rule(
    code=CODE,
    name="idle-gpus",
    severity=Severity.NOTE,
    summary="The launch is given more GPUs than it uses.",
    explanation=(
        "vLLM uses tensor x pipeline x data parallel GPUs, each 1 unless it is set, whatever the machine has. "
        "Eight GPUs and no `--tensor-parallel-size` are one GPU that works and seven that are paid for.\n\n"
        "Split the model over more GPUs, start more engines with `--data-parallel-size`, or ask for fewer GPUs. "
        "Nothing is said where the ranks are spread by Ray or over several nodes."
    ),
    bad=Example(version="0.33.0", gpu="h100:8", command="vllm serve meta-llama/Llama-3.1-8B"),
    good=Example(version="0.33.0", gpu="h100:8", command="vllm serve meta-llama/Llama-3.1-8B -tp 8"),
    check=check,
)
