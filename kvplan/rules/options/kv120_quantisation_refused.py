"""KV120: the quantisation method does not exist, does not fit the checkpoint, or not the model's dtype."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.failures import (
    QuantisationDeprecated,
    QuantisationDtype,
    QuantisationFileMissing,
    QuantisationMismatch,
    QuantisationOrder,
    QuantisationRefused,
    QuantisationUnknown,
)
from kvplan.engine.values import Plan
from kvplan.rules import words
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV120"
FLAG = "--quantization"


def check(plan: Plan) -> Iterator[Finding]:
    """One finding per refusal."""
    for _, facts in plan.failures(QuantisationRefused):
        message, option, fix = _words(plan, facts)
        yield Finding(rule=CODE, severity=Severity.ERROR, message=message, options=(option,), fix=fix)


def _words(plan: Plan, facts: QuantisationRefused) -> tuple[str, str, str]:
    """Message, option and fix of one refusal."""
    release = words.release_name(plan)
    match facts:
        case QuantisationMismatch():
            return (
                f"the checkpoint is quantised with {facts.declared}, which {FLAG} {facts.asked} contradicts",
                FLAG,
                f"drop {FLAG}: vLLM reads the method from the checkpoint",
            )
        case QuantisationUnknown(asked=None):
            return (
                f"{release} does not know the checkpoint's quantisation method {facts.method}",
                FLAG,
                "use a release that has this method, or an unquantised checkpoint",
            )
        case QuantisationUnknown():
            return (
                f"{release} does not know {FLAG} {facts.method}",
                FLAG,
                f"{FLAG} with one of {', '.join(facts.accepted)}",
            )
        case QuantisationDeprecated():
            return (
                f"{release} starts the deprecated quantisation method {facts.method} only when asked to",
                "--allow-deprecated-quantization",
                "add --allow-deprecated-quantization, or take a checkpoint with a current method",
            )
        case QuantisationOrder():
            return (
                f"{release} no longer runs checkpoints whose groups are ordered by activations ({facts.field})",
                FLAG,
                f"take a checkpoint without {facts.field}, or use vLLM 0.29.0",
            )
        case QuantisationFileMissing():
            files = words.listed(facts.files, "or")
            return (
                f"{FLAG} {facts.method} loads weights that were quantised before, and the checkpoint has no {files}",
                FLAG,
                f"drop {FLAG}, or serve a checkpoint that was quantised with {facts.method}",
            )
        case QuantisationDtype():
            usable = [dtype for dtype in facts.accepted if not dtype.startswith("float8")]
            return (
                f"quantisation method {facts.method} computes in {words.listed(facts.accepted, 'or')}, not in "
                f"{facts.dtype}",
                "--dtype",
                f"--dtype {words.listed(usable, 'or')}",
            )
    raise NotImplementedError(type(facts).__name__)


RULE = Rule(
    code=CODE,
    name="quantisation-refused",
    severity=Severity.ERROR,
    summary="The quantisation method does not fit the checkpoint, the model dtype or the release.",
    explanation=(
        "vLLM takes the quantisation method from the checkpoint and holds `--quantization` against it: another "
        "method is refused, even where it names the same kernels. A method that reads quantised weights is refused "
        "on a checkpoint without them. Each method computes in certain dtypes only, mostly bfloat16 and float16 "
        "(gpt-oss' mxfp4: bfloat16 only); `--dtype float32` is refused with almost all of them. fbgemm_fp8 and a "
        "few others need `--allow-deprecated-quantization`.\n\n"
        "Leave `--quantization` out for quantised checkpoints, and choose a dtype from the fix. All of this is "
        "checked before a GPU is touched."
    ),
    bad=Example(version="0.33.0", command="vllm serve openai/gpt-oss-120b --dtype float16"),
    good=Example(version="0.33.0", command="vllm serve openai/gpt-oss-120b"),
    claims=(
        QuantisationMismatch,
        QuantisationUnknown,
        QuantisationDeprecated,
        QuantisationFileMissing,
        QuantisationDtype,
        QuantisationOrder,
    ),
    check=check,
)
