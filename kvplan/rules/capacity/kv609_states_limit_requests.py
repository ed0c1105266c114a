"""KV609: states take so much of the pool that fewer requests run than the launch allows, however short they are."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.facade import Role
from kvplan.engine.values import Plan
from kvplan.launch.changing import Change
from kvplan.rules import words
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV609"
FLAG = "--max-num-seqs"


def check(plan: Plan) -> Iterator[Finding]:
    """At most one finding, where every request keeps a fixed number of states."""
    blocks = plan.capacity.num_blocks if plan.capacity is not None else None
    if not plan.ok or blocks is None or plan.settings is None:
        return
    states = {layer.name: layer.states_per_request for layer in plan.layers if layer.role is Role.STATE}
    if not states or None in states.values():
        return
    # A request takes its states from every group of state layers, and a block at least from each of the others.
    needs = [max((states.get(name) or 1 for name in group.layers), default=0) for group in plan.groups]
    held = sum(needs)
    most = (blocks - 1) // held
    if most >= plan.settings.max_num_seqs:
        return
    kept = max(count for count in states.values() if count is not None)
    yield Finding(
        rule=CODE,
        severity=Severity.WARNING,
        message=(
            f"at most {words.counted(most, 'request')} run at once, however short, not {plan.settings.max_num_seqs}: "
            f"each keeps {words.counted(kept, 'state')} a layer, {held} of {words.number(blocks)} blocks"
        ),
        options=(FLAG,),
        changes=(Change(values=(("max_num_seqs", max(most, 1)),)),),
    )


RULE = Rule(
    code=CODE,
    name="states-limit-requests",
    severity=Severity.WARNING,
    summary="The states of Mamba and linear attention layers limit how many requests run at once.",
    explanation=(
        "A state layer keeps one state a request, whatever its length, and more with prefix caching (two, or three "
        "where states are stored inside a prompt) and with speculative decoding (one for every speculative token).\n\n"
        "States come from the same pool as the blocks of attention layers, and each is as large as hundreds of "
        "tokens. Requests beyond what the pool holds wait, whatever `--max-num-seqs` allows."
    ),
    bad=Example(
        version="0.33.0",
        command="vllm serve nvidia/Nemotron-H-56B-Base-8K -tp 8 --enforce-eager",
        available="2GiB",
    ),
    good=Example(
        version="0.33.0",
        command="vllm serve nvidia/Nemotron-H-56B-Base-8K -tp 8 --max-num-seqs 5",
        available="2GiB",
    ),
    check=check,
)
