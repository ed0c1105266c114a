"""KV910: old releases hold the swap space against the host's memory, which kvplan does not know."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.values import Plan
from kvplan.history import checks
from kvplan.launch.options import default_of
from kvplan.rules import words
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV910"
FLAG = "--swap-space"
SHARE = 0.7
"""The part of the host's memory that swap space may take."""
WORTH_SAYING = 32
"""GiB of swap space from which on a host may be too small."""


def check(plan: Plan) -> Iterator[Finding]:
    """At most one finding."""
    if plan.settings is None or not plan.release.has(checks.SWAP_SPACE_CHECKED):
        return
    given = plan.launch.get("swap_space")
    each = default_of("swap_space", plan.release) if given is None else given
    if not isinstance(each, (int, float)):
        return
    total = each * plan.settings.tensor_parallel
    if total < WORTH_SAYING:
        return
    yield Finding(
        rule=CODE,
        severity=Severity.NOTE,
        message=(
            f"{words.release_name(plan)} sets {words.number(total)} GiB of swap space aside ({words.number(each)} GiB "
            f"a GPU) and stops where the host has less than {words.number(round(total / SHARE))} GiB of memory"
        ),
        options=(FLAG,),
        fix=f"{FLAG} 0: the space is not used",
    )


RULE = Rule(
    code=CODE,
    name="host-memory-unknown",
    severity=Severity.NOTE,
    summary="Swap space is held against the host's memory, which kvplan does not know.",
    explanation=(
        "Through 0.17.1 vLLM reserves `--swap-space` (4 GiB unless given) for each tensor-parallel rank and refuses "
        "to start where all of it is more than 70 % of the host's memory: `Too large swap space`. Nothing uses the "
        "space any more, and 0.18.0 dropped the option.\n\n"
        "kvplan does not know the host. On a small one, or in a container with a memory limit, set `--swap-space 0`."
    ),
    bad=Example(version="0.17.1", command="vllm serve meta-llama/Llama-3.1-8B -tp 8"),
    good=Example(version="0.17.1", command="vllm serve meta-llama/Llama-3.1-8B -tp 8 --swap-space 0"),
    until="0.17.1",
    check=check,
)
