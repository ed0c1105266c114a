"""KV911: a comment that is to suppress findings does not."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.values import Plan
from kvplan.rules.rule import Manifest, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV911"
REMARK = "suppression_unusable"
"""The kind of the remark that a scan makes of such a comment; its detail says what is wrong."""


def check(plan: Plan) -> Iterator[Finding]:
    """One finding a comment."""
    for remark in plan.launch.remarks:
        if remark.kind == REMARK:
            yield Finding(
                rule=CODE,
                severity=Severity.WARNING,
                message=f"this comment suppresses nothing: {remark.detail}",
                location=remark.location,
                fix="write it like `# kvplan: ignore[KV203] why this is all right`",
            )


RULE = Rule(
    code=CODE,
    name="suppression-unusable",
    severity=Severity.WARNING,
    summary="A comment that is to suppress a finding names no rule, an unknown one, or no reason.",
    explanation=(
        "In a file that `kvplan scan` reads, `# kvplan: ignore[KV203] reason` suppresses findings of the named rules "
        "(several with commas) on its own line, on the next line, or for the launch that begins there. The reason is "
        "part of it: whoever reads the file next has to know why the finding was let be.\n\n"
        "Without a rule, with a rule that does not exist or without a reason, the comment has no effect, and this "
        "warning says so. Add what is missing, or take the comment away."
    ),
    bad=Manifest(
        file="serve.sh",
        content=(
            "pip install vllm==0.33.0\n"
            "# kvplan: ignore[KV210]\n"
            "vllm serve meta-llama/Llama-3.1-8B --kv-cache-dtype fp8\n"
        ),
    ),
    good=Manifest(
        file="serve.sh",
        content=(
            "pip install vllm==0.33.0\n"
            "# kvplan: ignore[KV210] scales of 1 were measured and are good enough\n"
            "vllm serve meta-llama/Llama-3.1-8B --kv-cache-dtype fp8\n"
        ),
    ),
    check=check,
)
