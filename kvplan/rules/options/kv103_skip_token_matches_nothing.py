"""KV103: a token of the skip list that names no layer."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.values import Plan
from kvplan.rules import words
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV103"
FLAG = "--kv-cache-dtype-skip-layers"


def check(plan: Plan) -> Iterator[Finding]:
    """One finding per reason, with the whole list spelled as vLLM needs it."""
    # The model name that the list swallowed is KV105's business.
    swallowed = [remark.detail for remark in plan.launch.remarks if remark.kind == "positional_swallowed"]
    unmatched = [
        token
        for token in dict.fromkeys(plan.skip.unmatched_tokens)
        if not any(repr(token) in detail for detail in swallowed) and not _names_layer(plan, token)
    ]
    if not unmatched:
        return
    # Imported here: its patterns cost more than the whole rule, and most launches have no such token.
    from kvplan.rules.options.skip_tokens import read

    readings = {token: read(token, plan) for token in unmatched}
    fix = _fix(plan, {token: reading.spelled for token, reading in readings.items()})
    for reason in dict.fromkeys(reading.reason for reading in readings.values()):
        concerned = [token for token, reading in readings.items() if reading.reason == reason]
        quoted = words.listed([repr(token) for token in concerned])
        some = "skip token" if len(concerned) == 1 else "skip tokens"
        verb = "matches" if len(concerned) == 1 else "match"
        yield Finding(
            rule=CODE,
            severity=Severity.WARNING,
            message=f"{some} {quoted} {verb} no layer: {reason}",
            options=(FLAG,),
            fix=fix,
        )


def _names_layer(plan: Plan, token: str) -> bool:
    """Whether the model does have that layer: a start-up that stopped early has not come to it."""
    geometry = plan.geometry
    return not plan.layers and geometry is not None and token in {str(layer.index) for layer in geometry.layers}


def _fix(plan: Plan, spelled: dict[str, tuple[str, ...]]) -> str:
    """The list with every unmatched token replaced or left out."""
    right = dict.fromkeys(word for token in plan.skip.tokens for word in spelled.get(token, (token,)))
    if not right:
        return f"drop {FLAG}: none of its tokens names a layer of this model"
    return f"{FLAG} {words.tokens(right)}"


RULE = Rule(
    code=CODE,
    name="skip-token-matches-nothing",
    severity=Severity.WARNING,
    summary="A token of the skip list names no layer, and vLLM says nothing.",
    explanation=(
        "vLLM compares each token of `--kv-cache-dtype-skip-layers` with a layer's number as text. There is "
        "no splitting at commas, no range, no counting from the end and no layer name: `0,1`, `0-3`, `-1`, "
        "`00` and `layers.0` are each one token that equals no number. The only word is `sliding_window`, and "
        "only layers of the class `Attention` look at it. Numbers beyond the last layer are accepted as well.\n\n"
        "A token that matches nothing is ignored without a message: the layers that should have stayed "
        "unquantised are quantised. From 0.25.0 on such a list still raises the block size (see KV502), "
        "because that step only asks whether the list is empty.\n\n"
        "Write the numbers apart: `--kv-cache-dtype-skip-layers 0 1`. kvplan's own option `--skip-layers` "
        "also takes commas and ranges, vLLM's does not."
    ),
    references=("vllm#33695",),
    since="0.19.1",
    bad=Example(
        version="0.33.0",
        command="vllm serve GLM-5.2-FP8 -tp 8 --kv-cache-dtype fp8 --kv-cache-dtype-skip-layers 0,1",
    ),
    good=Example(
        version="0.33.0",
        command="vllm serve GLM-5.2-FP8 -tp 8 --kv-cache-dtype fp8 --kv-cache-dtype-skip-layers 0 1",
    ),
    check=check,
)
