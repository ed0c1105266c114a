"""KV909: the catalog's config of the model is not the file as published."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.values import Plan
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV909"


def check(plan: Plan) -> Iterator[Finding]:
    """At most one finding."""
    checkpoint = plan.checkpoint
    if checkpoint.incomplete is not None:
        yield Finding(
            rule=CODE,
            severity=Severity.NOTE,
            message=(
                f"the catalog's config of {checkpoint.name} is {checkpoint.incomplete}: what decides the cache is as "
                "published as far as known, other fields are missing"
            ),
            fix="give the model's own config.json or directory",
        )


RULE = Rule(
    code=CODE,
    name="catalog-copy-incomplete",
    severity=Severity.NOTE,
    summary="The catalog's config of the model is not the file as published.",
    explanation=(
        "Most configs of the catalog are copies of the published config.json, byte for byte. Of some models only a "
        "part was found in public (trimmed), or values from which a config could be made (reconstructed). Layers, "
        "heads and windows are those of the model as far as known, but a field that vLLM looks at may be missing.\n\n"
        "Give the model's own config.json, or the directory it lies in; the findings are then about that file."
    ),
    bad=Example(version="0.33.0", command="vllm serve LiquidAI/LFM2-1.2B"),
    good=Example(version="0.33.0", command="vllm serve meta-llama/Llama-3.1-8B"),
    check=check,
)
