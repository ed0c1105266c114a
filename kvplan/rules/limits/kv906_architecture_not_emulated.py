"""KV906: vLLM may serve the model, kvplan cannot tell how."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.failures import NotEmulated
from kvplan.engine.values import Plan
from kvplan.rules import words
from kvplan.rules.rule import Advice, Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV906"


def check(plan: Plan) -> Iterator[Finding]:
    """At most one finding."""
    for _, facts in plan.failures(NotEmulated):
        architecture = words.listed(plan.checkpoint.architectures, "or") or plan.checkpoint.model_type
        yield Finding(
            rule=CODE,
            severity=Severity.ERROR,
            message=f"kvplan does not emulate {architecture}: {facts.why}; this is not a verdict on vLLM",
            fix="`kvplan models --architectures` lists which are emulated, and why others are not",
        )


RULE = Rule(
    code=CODE,
    advice=Advice.ALONE,
    name="architecture-not-emulated",
    severity=Severity.ERROR,
    summary="kvplan does not emulate this architecture; nothing is said about vLLM.",
    explanation=(
        "The layers of some architectures own caches that kvplan does not emulate, or cannot be told from the "
        "config alone. Rather than print numbers of a model that merely looks alike, kvplan stops. It is an "
        "error so that a gate does not pass what was not checked.\n\n"
        "vLLM itself may well start."
    ),
    bad=Example(
        version="0.33.0",
        command='vllm serve DeepSeek-V2-Lite --hf-overrides \'{"architectures": ["DeepSeekMTPModel"]}\'',
    ),
    good=Example(version="0.33.0", command="vllm serve deepseek-ai/DeepSeek-V3.2 -tp 8"),
    claims=(NotEmulated,),
    check=check,
)
