"""KV610: CUDA graphs of decode steps with more requests than the cache has blocks for their states."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.failures import StatesTooFew
from kvplan.engine.values import Plan
from kvplan.launch.changing import Change
from kvplan.rules import words
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV610"
FLAG = "--max-num-seqs"


def check(plan: Plan) -> Iterator[Finding]:
    """At most one finding."""
    for _, facts in plan.failures(StatesTooFew):
        yield Finding(
            rule=CODE,
            severity=Severity.ERROR,
            message=(
                f"{words.release_name(plan)} plans {words.number(facts.blocks)} blocks and then stops: max_num_seqs "
                f"({facts.max_num_seqs}) exceeds available Mamba cache blocks ({facts.blocks}), which CUDA graphs of "
                "whole decode steps need"
            ),
            options=(FLAG,),
            changes=(
                Change(values=(("max_num_seqs", max(facts.blocks, 1)),)),
                Change(values=(("enforce_eager", True),)),
            ),
        )


RULE = Rule(
    code=CODE,
    name="graphs-outnumber-states",
    severity=Severity.ERROR,
    summary="A model with states has fewer cache blocks than a decode step may have requests.",
    explanation=(
        "In a decode step every sequence of a model with Mamba or linear attention layers works on a state of its own, "
        "and each state takes a cache block. vLLM captures whole decode steps as CUDA graphs, for up to "
        "`--max-num-seqs` sequences, and from 0.20.2 on stops, once the cache is planned, if there are fewer blocks. "
        "Earlier releases captured fewer sizes.\n\n"
        "The default of `--max-num-seqs` is 1,024 on large GPUs: lower it to what the pool holds, or give the cache "
        "more memory. Without full graphs (`--enforce-eager`, `-cc.cudagraph_mode=PIECEWISE`) the check does not run."
    ),
    bad=Example(
        version="0.33.0",
        command="vllm serve nvidia/Nemotron-H-56B-Base-8K -tp 8",
        available="2GiB",
    ),
    good=Example(
        version="0.33.0",
        command="vllm serve nvidia/Nemotron-H-56B-Base-8K -tp 8 --max-num-seqs 5",
        available="2GiB",
    ),
    claims=(StatesTooFew,),
    check=check,
)
