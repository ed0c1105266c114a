"""KV116: options of state layers that do not go together."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.failures import (
    ReplayStatesRefused,
    StateBlockUnset,
    StateBlockWithoutPrefixCaching,
    StateModeRefused,
    StateOptionsRefused,
)
from kvplan.engine.values import Plan
from kvplan.rules import words
from kvplan.rules.failures import said
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV116"

_FIXES: dict[type[StateOptionsRefused], str] = {
    StateBlockWithoutPrefixCaching: "add --enable-prefix-caching, or drop --mamba-block-size",
    StateBlockUnset: "give --block-size, or --mamba-block-size, together with --enable-prefix-caching",
    ReplayStatesRefused: "drop --use-replayssm, or what the message names",
    StateModeRefused: "drop the option that it excludes, or --enable-prefix-caching",
}
"""By the failing check."""


def check(plan: Plan) -> Iterator[Finding]:
    """One finding per refused combination."""
    for error, facts in plan.failures(StateOptionsRefused):
        yield Finding(
            rule=CODE,
            severity=Severity.ERROR,
            message=f"{words.release_name(plan)} refuses these options for state layers: {said(error)}",
            options=(facts.option,),
            fix=_FIXES[type(facts)],
        )


RULE = Rule(
    code=CODE,
    name="state-options-refused",
    severity=Severity.ERROR,
    summary="Options for the states of Mamba and linear attention layers exclude each other.",
    explanation=(
        "State layers keep a state of fixed size instead of tokens. What may be asked of them hangs together: "
        "`--mamba-block-size` says how far apart cached states lie, so it needs prefix caching; keeping only the last "
        "states (mode align) needs chunked prefill; `--use-replayssm` keeps a ring of inputs beside each state, which "
        "few models and kernels can do.\n\n"
        "Prefix caching of models with state layers is on by default from 0.28.0; before, `--enable-prefix-caching` "
        "asks for it."
    ),
    bad=Example(version="0.27.1", command="vllm serve Qwen/Qwen3-Next-80B-A3B-Thinking --mamba-block-size 512"),
    good=Example(
        version="0.27.1",
        command="vllm serve Qwen/Qwen3-Next-80B-A3B-Thinking --mamba-block-size 512 --enable-prefix-caching",
    ),
    check=check,
    claims=tuple(_FIXES),
)
