"""KV416: --enable-eplb cannot spread these experts."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.failures import ExpertsNotBalanced, ExpertsUneven
from kvplan.engine.values import Plan
from kvplan.rules import words
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV416"
FLAG = "--enable-eplb"


def check(plan: Plan) -> Iterator[Finding]:
    """At most one finding: shares come before methods."""
    for _, uneven in plan.failures(ExpertsUneven):
        experts, ranks = uneven.experts, uneven.ranks
        more = f" and {uneven.redundant} redundant ones" if uneven.redundant else ""
        yield Finding(
            rule=CODE,
            severity=Severity.ERROR,
            message=f"{FLAG} wants equal shares, and {experts} experts{more} do not divide by {ranks} ranks",
            options=(FLAG, "--eplb-config"),
            fix=f"--eplb-config.num_redundant_experts {-experts % ranks}",
        )
    for _, fixed in plan.failures(ExpertsNotBalanced):
        method = fixed.method
        why = f"cannot move experts between ranks that are quantised like {plan.checkpoint.name}'s ({method})"
        if method is None:
            why = f"does not balance {plan.checkpoint.name}'s experts, and takes no redundant ones without"
        yield Finding(
            rule=CODE,
            severity=Severity.ERROR,
            message=f"{words.release_name(plan)} {why}",
            options=(FLAG,),
            fix=f"drop {FLAG}" if method is not None else f"drop {FLAG} and --eplb-config",
        )


RULE = Rule(
    code=CODE,
    name="experts-cannot-be-balanced",
    severity=Severity.ERROR,
    summary="Experts cannot be balanced over ranks: unequal shares, or a quantisation that does not allow it.",
    explanation=(
        "`--enable-eplb` moves experts between the ranks of expert parallelism while the engine runs. Every rank must "
        "hold equally many, so the number of experts and of `num_redundant_experts` together must divide by "
        "tensor times data parallel size: 256 experts on 8 ranks are fine with 0 or 8 redundant ones, not with 4. And "
        "the weights must be stored so that an expert can be taken out: FP8, NVFP4 and unquantised ones are, "
        "gpt-oss' MXFP4, AWQ, GPTQ and most other packed integers are not. vLLM looks at both while it builds the "
        "first layer with experts.\n\n"
        "Choose a number of redundant experts that makes shares equal, or leave the option out."
    ),
    bad=Example(version="0.33.0", command="vllm serve openai/gpt-oss-20b -tp 2 --enable-expert-parallel --enable-eplb"),
    good=Example(
        version="0.33.0", command="vllm serve Qwen/Qwen3-30B-A3B -tp 2 --enable-expert-parallel --enable-eplb"
    ),
    claims=(ExpertsUneven, ExpertsNotBalanced),
    check=check,
)
