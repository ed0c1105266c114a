"""Under which settings a draft's layers are built: attention backend and cache dtype.

Sources: `_create_draft_vllm_config` (v1/spec_decode/llm_base_proposer.py) for the V1 runner, the `load_*_model`
functions of v1/worker/gpu/spec_decode for V2.
"""

from __future__ import annotations

from kvplan.engine.failures import DraftNotBuilt
from kvplan.engine.models.draft_names import NO_PREFIX_CACHING
from kvplan.engine.speculation import hidden_states
from kvplan.engine.speculation.values import Speculation
from kvplan.engine.values import Stage, StartupError
from kvplan.history import speculation as history
from kvplan.releases import Release


def backend_wish(speculation: Speculation, target: str | None, runner: str, release: Release) -> str | None:
    """The attention backend that the draft's layers ask for; `target` is what the target's ask for."""
    own, method = speculation.attention_backend, speculation.method
    if _reads_targets_caches(speculation):
        return target
    if runner == "V1":
        return own if release.has(history.DRAFT_LEAVES_TARGETS_BACKEND_V1) else target
    if method == "draft_model":
        return target
    if method == "dflash":
        return own if release.has(history.DFLASH_LEAVES_TARGETS_BACKEND) else target
    if method == "dspark":
        inherits = release.has(history.DSPARK_TAKES_TARGETS_BACKEND)
        latest = release.has(history.DSPARK_IN_TARGET_TAKES_TARGETS_BACKEND) and speculation.reference is None
        return own or (target if inherits or latest else None)
    return (own or target) if release.has(history.DRAFT_BACKEND_ON_V2) else target


def refusal(speculation: Speculation, release: Release, runner: str, *, prefix_caching: bool) -> StartupError | None:
    """Why the draft cannot be built beside a target that was."""
    if runner == "V1" and speculation.method == hidden_states.METHOD and speculation.tokens != 1:
        return hidden_states.one_token_only()
    if speculation.failure is not None or speculation.checkpoint is None:
        return speculation.failure
    for name in speculation.checkpoint.architectures if prefix_caching else ():
        behaviour, message = NO_PREFIX_CACHING.get(name, (None, ""))
        if behaviour is not None and release.has(behaviour):
            return StartupError(Stage.LAYERS, "AssertionError", message, DraftNotBuilt())
    return None


def verifies_adaptively(speculation: Speculation | None, *, of_draft: bool) -> bool:
    """Whether a layer's query lengths are decided on the device, which a DSpark draft's own never are."""
    return speculation is not None and speculation.adaptive and not (of_draft and speculation.method == "dspark")


def _reads_targets_caches(speculation: Speculation) -> bool:
    return bool(speculation.layers) and all(layer.shares_cache_of is not None for layer in speculation.layers)
