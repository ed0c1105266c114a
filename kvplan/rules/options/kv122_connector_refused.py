"""KV122: a KV connector that this release does not take."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.failures import ConnectorRefused
from kvplan.engine.values import Plan
from kvplan.rules import words
from kvplan.rules.failures import said
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV122"
FLAG = "--kv-transfer-config"


def check(plan: Plan) -> Iterator[Finding]:
    """One finding per refused transfer config."""
    for error, facts in plan.failures(ConnectorRefused):
        fix = (
            f"name a connector of this release: {', '.join(facts.known)}"
            if facts.known
            else "correct what the message names"
        )
        if facts.lists_none:
            fix = 'list the connectors: "kv_connector_extra_config": {"connectors": [{…}, {…}]}'
        yield Finding(
            rule=CODE,
            severity=Severity.ERROR,
            message=f"{words.release_name(plan)} refuses the KV connector: {said(error)}",
            options=(FLAG,),
            fix=fix,
        )


RULE = Rule(
    code=CODE,
    name="connector-refused",
    severity=Severity.ERROR,
    summary="A KV transfer config names no connector of this release, or contradicts itself.",
    explanation=(
        "A KV connector hands the cache to another instance or to other memory. `--kv-transfer-config` names one of "
        "the classes that the release has registered, and a role; classes come and go with the releases. From 0.22.1 "
        "an unknown class is refused with the config, before, once the cache is laid out.\n\n"
        "A MultiConnector lists the connectors it holds, which must agree on the order of the cache. A connector that "
        "does not work with the hybrid KV cache manager switches it off, which costs models with sliding windows "
        "memory and stops models with states."
    ),
    bad=Example(
        version="0.18.1",
        command='vllm serve google/gemma-3-1b-it --kv-transfer-config \'{"kv_connector": "NixlConnector"}\'',
    ),
    good=Example(
        version="0.18.1",
        command=(
            "vllm serve google/gemma-3-1b-it --kv-transfer-config "
            '\'{"kv_connector": "NixlConnector", "kv_role": "kv_both"}\''
        ),
    ),
    claims=(ConnectorRefused,),
    check=check,
)
