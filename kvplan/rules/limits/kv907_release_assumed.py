"""KV907: no release was given."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.values import Plan
from kvplan.rules.rule import Manifest, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV907"


def check(plan: Plan) -> Iterator[Finding]:
    """At most one finding."""
    for remark in plan.launch.remarks:
        if remark.kind == "release_assumed":
            yield Finding(
                rule=CODE,
                severity=Severity.NOTE,
                message=f"vLLM's release is not known: {remark.detail}",
                options=("--vllm-version",),
                location=remark.location,
                fix="pin the image to a release, or give --vllm-version RELEASE",
            )


RULE = Rule(
    code=CODE,
    name="release-assumed",
    severity=Severity.NOTE,
    summary="A scanned launch does not say which vLLM release it runs.",
    explanation=(
        "What vLLM does with the cache changes from release to release. `kvplan scan` reads the release from the "
        "tag of vLLM's own images (`vllm/vllm-openai:v0.25.1`) and from `pip install vllm==0.25.1`. Tags such as "
        "`latest` and images of one's own do not tell it; the newest known release is taken then.\n\n"
        "Pin the image, or give `--vllm-version`, which holds for every launch that names no release itself."
    ),
    bad=Manifest(file="Dockerfile", content='FROM vllm/vllm-openai:latest\nCMD ["meta-llama/Llama-3.1-8B"]\n'),
    good=Manifest(file="Dockerfile", content='FROM vllm/vllm-openai:v0.33.0\nCMD ["meta-llama/Llama-3.1-8B"]\n'),
    check=check,
)
