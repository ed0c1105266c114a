"""KV206: the checkpoint's cache scheme replaces the cache dtype of the command line."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.values import Plan
from kvplan.history.cache import COMPRESSED_TENSORS_OVERRIDES_FLAG
from kvplan.launch.changing import Change
from kvplan.rules import words
from kvplan.rules.cache.attention import DTYPE_FLAG, attention_layers, kv_scheme, of
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV206"


def check(plan: Plan) -> Iterator[Finding]:
    """At most one finding."""
    settings = plan.settings
    if settings is None or settings.requested_cache_dtype == "auto" or not kv_scheme(plan):
        return
    if not plan.release.has(COMPRESSED_TENSORS_OVERRIDES_FLAG):
        return
    asked = settings.requested_cache_dtype
    changed = [
        layer
        for layer in attention_layers(plan)
        if layer.cache_dtype == "fp8" and asked != "fp8" and layer.index not in plan.skip.matched_layers
    ]
    if not changed:
        return
    yield Finding(
        rule=CODE,
        severity=Severity.WARNING,
        message=(
            f"{DTYPE_FLAG} {asked} is not used: {words.release_name(plan)} takes fp8 from the checkpoint's "
            f"kv_cache_scheme for {words.layers(of(changed))}"
        ),
        layers=of(changed),
        options=(DTYPE_FLAG,),
        changes=(Change(release=words.release_after(COMPRESSED_TENSORS_OVERRIDES_FLAG)),),
    )


RULE = Rule(
    code=CODE,
    name="checkpoint-overrides-flag",
    severity=Severity.WARNING,
    summary="The checkpoint's kv_cache_scheme replaces the cache dtype given on the command line.",
    explanation=(
        "A compressed-tensors checkpoint can carry a `kv_cache_scheme`. Through 0.21.0 every `Attention` "
        "layer of such a checkpoint stores its cache as fp8, whatever `--kv-cache-dtype` says, and the "
        "launch-wide value is changed with it. From 0.22.1 on the scheme counts only where the flag is "
        "`auto`. Layers of the class `MLAAttention` never read the scheme.\n\n"
        "Upgrade, or take a checkpoint without the scheme."
    ),
    until="0.21.0",
    bad=Example(version="0.21.0", command="vllm serve poolside/Laguna-XS.2-FP8 --kv-cache-dtype bfloat16"),
    good=Example(version="0.22.1", command="vllm serve poolside/Laguna-XS.2-FP8 --kv-cache-dtype bfloat16"),
    check=check,
)
