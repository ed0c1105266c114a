"""KV126: a KV connector that the release takes, and that then stops the workers."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.failures import ConnectorNeedsKernelBlock, ConnectorWithoutHybrid
from kvplan.engine.values import Plan
from kvplan.launch.changing import Change
from kvplan.rules import words
from kvplan.rules.rule import Advice, Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV126"
HYBRID = "--no-disable-hybrid-kv-cache-manager"
OFF = "--disable-hybrid-kv-cache-manager"


def check(plan: Plan) -> Iterator[Finding]:
    """One finding for each of the two ways."""
    release = words.release_name(plan)
    for _, facts in plan.failures(ConnectorWithoutHybrid):
        asked = plan.launch.get("disable_hybrid_kv_cache_manager") is False
        yield Finding(
            rule=CODE,
            severity=Severity.ERROR,
            message=(
                f"{release} plans the cache and then stops: {facts.connector} does not work with the hybrid KV cache "
                f"manager, which {f'{HYBRID} keeps on' if asked else 'is on'}"
            ),
            options=(HYBRID if asked else OFF,),
            changes=(
                Change(without=("disable_hybrid_kv_cache_manager",))
                if asked
                else Change(values=(("disable_hybrid_kv_cache_manager", True),)),
            ),
        )
    for _, block in plan.failures(ConnectorNeedsKernelBlock):
        yield Finding(
            rule=CODE,
            severity=Severity.ERROR,
            message=(
                f"{release} plans the cache and then stops: {block.connector} transfers blocks of the kernels' size, "
                f"and the smallest block of this model's groups, {words.number(block.block_size)} tokens, holds none "
                f"that {words.listed(block.backends, 'and')} have in common"
            ),
            options=("--kv-transfer-config",),
            fix="use another connector, or a release whose connector works with these groups",
        )


RULE = Rule(
    code=CODE,
    name="connector-stops-later",
    severity=Severity.ERROR,
    summary="A KV connector is accepted with the options and stops the workers when they make it.",
    explanation=(
        "Workers make the connector's class once the cache is planned. A class that does not support the hybrid KV "
        "cache manager switches it off by itself; where `--no-disable-hybrid-kv-cache-manager` asks for it, the "
        "worker stops with `does not support HMA but HMA is enabled`. So does `--kv-offloading-size` in releases that "
        "settle the connector only after that (until 0.21.0), unless `--disable-hybrid-kv-cache-manager` is given.\n\n"
        "The NIXL and Mooncake connectors transfer blocks of a size that all attention kernels address, and look for "
        "one in the block size that the engine core has written down: the smallest of all groups, where the worker "
        "lives in the engine's own process. Models with small rings beside the cache (DeepSeek-V4: 4 tokens) have "
        "none: `No common block size for 4`.\n\n"
        "Read from vLLM's sources; the second is also a public report. Answers of vLLM's start-up without a GPU end "
        "before."
    ),
    bad=Example(
        version="0.33.0",
        command=(
            "vllm serve Qwen/Qwen3-32B -tp 2 --no-disable-hybrid-kv-cache-manager --kv-transfer-config "
            '\'{"kv_connector": "LMCacheConnectorV1", "kv_role": "kv_both"}\''
        ),
    ),
    good=Example(
        version="0.33.0",
        command=(
            "vllm serve Qwen/Qwen3-32B -tp 2 --kv-transfer-config "
            '\'{"kv_connector": "LMCacheConnectorV1", "kv_role": "kv_both"}\''
        ),
    ),
    references=("vllm#50714",),
    claims=(ConnectorWithoutHybrid, ConnectorNeedsKernelBlock),
    check=check,
    advice=Advice.WHERE_NOTHING_WORKS,
)
