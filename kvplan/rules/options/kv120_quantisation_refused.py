"""KV120: the quantisation method does not exist, does not fit the checkpoint, or not the model's dtype."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.values import Plan, StartupError
from kvplan.rules import words
from kvplan.rules.failures import errors, fact, names
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV120"
FLAG = "--quantization"
_CODES = (
    "quantization_mismatch",
    "quantization_unknown",
    "quantization_deprecated",
    "quantization_file_missing",
    "quantization_dtype",
    "quantization_order",
)


def check(plan: Plan) -> Iterator[Finding]:
    """One finding per refusal."""
    for error in errors(plan, *_CODES):
        message, option, fix = _words(plan, error)
        yield Finding(rule=CODE, severity=Severity.ERROR, message=message, options=(option,), fix=fix)


def _words(plan: Plan, error: StartupError) -> tuple[str, str, str]:
    """Message, option and fix of one refusal."""
    method, release = fact(error, "method"), words.release_name(plan)
    if error.code == "quantization_mismatch":
        declared = fact(error, "declared")
        return (
            f"the checkpoint is quantised with {declared}, which {FLAG} {fact(error, 'asked')} contradicts",
            FLAG,
            f"drop {FLAG}: vLLM reads the method from the checkpoint",
        )
    if error.code == "quantization_unknown":
        if fact(error, "asked") is None:
            return (
                f"{release} does not know the checkpoint's quantisation method {method}",
                FLAG,
                "use a release that has this method, or an unquantised checkpoint",
            )
        return (
            f"{release} does not know {FLAG} {method}",
            FLAG,
            f"{FLAG} with one of {', '.join(names(error, 'accepted'))}",
        )
    if error.code == "quantization_deprecated":
        return (
            f"{release} starts the deprecated quantisation method {method} only when asked to",
            "--allow-deprecated-quantization",
            "add --allow-deprecated-quantization, or take a checkpoint with a current method",
        )
    if error.code == "quantization_order":
        return (
            f"{release} no longer runs GPTQ checkpoints whose groups are ordered by activations (desc_act)",
            FLAG,
            "take a checkpoint with desc_act false, or use vLLM 0.29.0",
        )
    if error.code == "quantization_file_missing":
        files = words.either(names(error, "files"))
        return (
            f"{FLAG} {method} loads weights that were quantised before, and the checkpoint has no {files}",
            FLAG,
            f"drop {FLAG}, or serve a checkpoint that was quantised with {method}",
        )
    accepted = names(error, "accepted")
    usable = [dtype for dtype in accepted if not dtype.startswith("float8")]
    return (
        f"quantisation method {method} computes in {words.either(accepted)}, not in {fact(error, 'dtype')}",
        "--dtype",
        f"--dtype {words.either(usable)}",
    )


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
    claims=_CODES,
    check=check,
)
