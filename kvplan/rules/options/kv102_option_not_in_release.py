"""KV102: an option that this release does not have."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.failures import RefusedOption
from kvplan.engine.values import Plan
from kvplan.launch.options import table_of
from kvplan.rules import words
from kvplan.rules.options.availability import nearest, span, with_option
from kvplan.rules.options.refusals import RefusalKind, refusals
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV102"
_KINDS = frozenset({"unknown_option", "removed_option", "not_yet_option"})
INSTEAD = {
    "--swap-space": "drop it: vLLM's V1 engine recomputes instead of swapping",
    "--calculate-kv-scales": "drop it: use a checkpoint with KV cache scales, or accept scale 1.0",
}
"""What to do about options that were removed."""


def check(plan: Plan) -> Iterator[Finding]:
    """One finding per option; the parser's own message only where no option is known."""
    remarks = [remark for remark in plan.launch.remarks if remark.kind in _KINDS]
    for remark in remarks:
        flag = remark.option.split("=", 1)[0]
        message, fix = _words(plan, flag)
        yield Finding(
            rule=CODE,
            severity=Severity.ERROR,
            message=message,
            options=(flag,),
            location=remark.location,
            fix=fix,
        )
    if remarks:
        return
    for refusal in refusals(plan, RefusalKind.OPTION):
        if refusal.option is None and len(plan.launch.refusals) > 1:
            # Words left over by an option that was refused itself.
            continue
        yield Finding(
            rule=CODE,
            severity=Severity.ERROR,
            message=f"{words.release_name(plan)} refuses the command line: {words.one_line(refusal.message)}",
            options=() if refusal.option is None else (refusal.option,),
            location=refusal.location,
            fix=f"drop {refusal.option or 'the option'}",
        )


def _words(plan: Plan, flag: str) -> tuple[str, str]:
    """Message and fix for one flag."""
    having = with_option(flag)
    if having:
        fix = INSTEAD.get(flag, f"drop {flag}, or use a release that has it")
        return f"{words.release_name(plan)} has no option {flag}: releases {span(having)} have it", fix
    close = nearest(flag, [name for name in table_of(plan.release).by_flag if name.startswith("--")])
    fix = f"did you mean {close}?" if close is not None else f"drop {flag}"
    return f"{words.release_name(plan)} has no option {flag}, and no known release has it", fix


RULE = Rule(
    code=CODE,
    name="option-not-in-release",
    severity=Severity.ERROR,
    summary="An option that this release does not have yet, or has no more.",
    explanation=(
        "The parser refuses a command line with an option it does not know: exit code 2 before anything is "
        "loaded. Options come and go with the releases: `--kv-cache-dtype-skip-layers` exists from 0.19.1 on, "
        "`--swap-space` until 0.17.1, `--calculate-kv-scales` until 0.27.1.\n\n"
        "The message says which releases have the option."
    ),
    bad=Example(
        version="0.18.1",
        command="vllm serve meta-llama/Llama-3.1-8B --kv-cache-dtype fp8 --kv-cache-dtype-skip-layers 0 1",
    ),
    good=Example(
        version="0.19.1",
        command="vllm serve meta-llama/Llama-3.1-8B --kv-cache-dtype fp8 --kv-cache-dtype-skip-layers 0 1",
    ),
    claims=(RefusedOption,),
    check=check,
)
