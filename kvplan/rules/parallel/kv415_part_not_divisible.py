"""KV415: a tower, the vocabulary or a width that tensor parallelism cannot split evenly."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.failures import PartNotDivisible
from kvplan.engine.values import Plan
from kvplan.rules import words
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV415"
FLAG = "--tensor-parallel-size"
WHOLE = "--mm-encoder-tp-mode data"


def check(plan: Plan) -> Iterator[Finding]:
    """One finding per failing check."""
    for _, facts in plan.failures(PartNotDivisible):
        yield Finding(
            rule=CODE,
            severity=Severity.ERROR,
            message=(
                f"{FLAG} {facts.tensor_parallel} does not divide the {facts.part} ({words.number(facts.size)}) of "
                f"{_owner(facts.tower)}"
            ),
            options=(FLAG,),
            fix=_fix(facts),
        )


def _owner(tower: str | None) -> str:
    return f"the tower that {tower} describes" if tower else "the model"


def _fix(facts: PartNotDivisible) -> str:
    """The next smaller size that divides; some towers can also stay whole."""
    smaller = next((tp for tp in range(facts.tensor_parallel - 1, 0, -1) if facts.size % tp == 0), 1)
    fix = f"{FLAG} {smaller}"
    return f"{fix}, or {WHOLE}, which keeps the tower whole on every rank" if facts.whole_on_request else fix


RULE = Rule(
    code=CODE,
    name="part-not-divisible",
    severity=Severity.ERROR,
    summary="The tensor-parallel size does not divide a vision or audio tower, or the vocabulary.",
    explanation=(
        "Tensor parallelism splits more than the decoder: the heads and the inner width of the vision or audio tower "
        "of a multimodal model, and the vocabulary (filled up to a multiple of 64). Gemma 3's vision tower has 16 "
        "heads, so that 32 ranks cannot share it although 32 divides the decoder's; Qwen2.5-VL's is 3,420 wide, which "
        "8 does not divide. vLLM notices while it builds the model, with a bare assertion. Forbidding images "
        "(`--limit-mm-per-prompt`, `--language-model-only`) does not help: the tower is built all the same.\n\n"
        "Lower `--tensor-parallel-size` and use pipeline or data parallelism for the rest of the GPUs. Where the class "
        "supports it, `--mm-encoder-tp-mode data` keeps the tower whole on every rank; for other classes vLLM ignores "
        "it. kvplan knows the towers of the widely used families; what others split is not checked."
    ),
    bad=Example(version="0.33.0", command="vllm serve google/gemma-3-27b-it -tp 32"),
    good=Example(version="0.33.0", command="vllm serve google/gemma-3-27b-it -tp 16"),
    claims=(PartNotDivisible,),
    check=check,
)
