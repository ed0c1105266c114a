"""KV506: backends of one model that share no block size."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kvplan.engine.failures import NoCommonBlockSize, NoSharedBlockSize
from kvplan.engine.values import Plan, StartupError
from kvplan.history.blocks import BLOCK_SIZE_SHARED_BY_ALL_BACKENDS
from kvplan.rules import words
from kvplan.rules.failures import said
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV506"
FLAG = "--block-size"
_FIXED = re.compile(r"(?<![\w(])(\d+)(?=[,\]])")
_MULTIPLE = re.compile(r"\w+\((?:base=)?(\d+)\)")


def check(plan: Plan) -> Iterator[Finding]:
    """One finding per failing check."""
    for error, common in plan.failures(NoCommonBlockSize):
        message = f"block size {common.block_size} has no part that {words.listed(common.backends)} can all read"
        yield _finding(message, error, _fix(plan, common.kernel_block_sizes))
    for error, shared in plan.failures(NoSharedBlockSize):
        message = f"{words.listed(shared.backends)} share no block size"
        yield _finding(message, error, _fix(plan, ""))


def _finding(message: str, error: StartupError, fix: str) -> Finding:
    return Finding(rule=CODE, severity=Severity.ERROR, message=f"{message} ({said(error)})", options=(FLAG,), fix=fix)


def _fix(plan: Plan, kernel_block_sizes: str) -> str:
    """A size all of them take, or a release that looks for one."""
    if plan.launch.get("block_size") is not None:
        return f"drop {FLAG}: vLLM then chooses a size by the backends"
    size = _read_by_all(kernel_block_sizes)
    if size is None:
        return "choose one backend for all attention layers with --attention-backend"
    if plan.release.has(BLOCK_SIZE_SHARED_BY_ALL_BACKENDS):
        return f"{FLAG} {size}"
    since = BLOCK_SIZE_SHARED_BY_ALL_BACKENDS.since
    return f"{FLAG} {size}, or use vLLM {since} or later, which looks for a size that all take"


def _read_by_all(listed: str) -> int | None:
    """The largest size named in `A: [16, 32]; B: [MultipleOf(16)]` that every backend of the list reads."""
    backends = [part.partition(":")[2] for part in listed.split(";") if ":" in part]
    named = {int(text) for part in backends for text in _FIXED.findall(part)}
    for size in sorted(named, reverse=True):
        if all(
            str(size) in _FIXED.findall(part) or any(size % int(base) == 0 for base in _MULTIPLE.findall(part))
            for part in backends
        ):
            return size
    return None


RULE = Rule(
    code=CODE,
    name="no-common-block-size",
    severity=Severity.ERROR,
    summary="The attention backends of the model's layers can read no common block size.",
    explanation=(
        "Layers of one group share a block table, so all their backends must be able to read the block, or "
        "one whole part of it. Skipping layers gives one model two backends: dense MLA with an fp8 cache runs "
        "on FLASHMLA (blocks of 64) on Hopper, the skipped layers on FLASH_ATTN_MLA (any multiple of 16). "
        "Through 0.30.0 the block size comes from the first layer alone; if layer 0 is skipped that is 16, "
        "the skip list raises it to 32, and FLASHMLA cannot read 32: `No common block size for 32`. From "
        "0.31.0 on vLLM looks for a size that all backends take, and says so when there is none.\n\n"
        "Give a `--block-size` that all of them take, such as 64."
    ),
    bad=Example(
        version="0.27.1",
        command="vllm serve DeepSeek-V2-Lite -tp 2 --kv-cache-dtype fp8 --kv-cache-dtype-skip-layers 0 1",
    ),
    good=Example(
        version="0.33.0",
        command="vllm serve DeepSeek-V2-Lite -tp 2 --kv-cache-dtype fp8 --kv-cache-dtype-skip-layers 0 1",
    ),
    claims=(NoCommonBlockSize, NoSharedBlockSize),
    check=check,
)
