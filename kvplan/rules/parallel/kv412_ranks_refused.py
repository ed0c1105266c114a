"""KV412: data-parallel ranks, nodes or the handling of experts that cannot be combined so."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.failures import RanksRefused
from kvplan.engine.values import Plan
from kvplan.rules import words
from kvplan.rules.failures import said
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV412"

_FIXES = {
    "--enable-eplb": "add --enable-expert-parallel and more than one rank, or drop --enable-eplb",
    "--enable-elastic-ep": "add --enable-eplb without a pipeline, or drop --enable-elastic-ep",
    "--eplb-config": "add --enable-eplb, or drop num_redundant_experts",
    "--nnodes": "make the ranks a multiple of the nodes, or drop --nnodes",
    "--data-parallel-hybrid-lb": "add --data-parallel-size-local, or drop --data-parallel-hybrid-lb",
    "--data-parallel-external-lb": "add --data-parallel-size and --data-parallel-rank, or drop it",
}


def check(plan: Plan) -> Iterator[Finding]:
    """One finding per refused combination."""
    for error, facts in plan.failures(RanksRefused):
        option, able = facts.option, facts.accepted
        fix = f"add --all2all-backend {able[0]}, or drop {option}" if able else f"correct {option}"
        yield Finding(
            rule=CODE,
            severity=Severity.ERROR,
            message=f"{words.release_name(plan)} cannot arrange the ranks so: {said(error)}",
            options=(option,),
            fix=_FIXES.get(option, fix),
        )


RULE = Rule(
    code=CODE,
    name="ranks-refused",
    severity=Severity.ERROR,
    summary="Data-parallel ranks, nodes or the handling of experts cannot be combined so.",
    explanation=(
        "Data parallelism needs every process to know its rank: from `--data-parallel-rank`, from its node, or from "
        "the number of local ranks. Balancing experts (`--enable-eplb`) needs expert parallelism over more than one "
        "rank; cutting batches in two (`--enable-dbo`, `--ubatch-size`) needs an exchange of experts that can be "
        "interleaved, which the default `allgather_reducescatter` cannot.\n\n"
        "vLLM refuses such launches while it reads the options, before anything is loaded. From 0.27.1 the messages "
        "name the options; before, some are plain assertions."
    ),
    bad=Example(version="0.33.0", command="vllm serve Qwen/Qwen3-30B-A3B -tp 2 --enable-eplb"),
    good=Example(
        version="0.33.0", command="vllm serve Qwen/Qwen3-30B-A3B -tp 2 --enable-eplb --enable-expert-parallel"
    ),
    claims=(RanksRefused,),
    check=check,
)
