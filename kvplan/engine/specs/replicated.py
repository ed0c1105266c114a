"""Drafts whose caches every rank keeps whole while decode context parallelism divides the target's.

DFlash and DSpark drafts run with a context of their own on each rank unless they keep latent rows. Sources:
`DFlashSpeculator.__init__` (v1/worker/gpu/spec_decode/dflash/speculator.py) and `GPUModelRunner.get_kv_cache_spec`
(v1/worker/gpu/model_runner.py), which sets `dcp_sharded` of the draft's specs to false.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kvplan.engine.config import EngineConfig
from kvplan.engine.models.geometry import Kind
from kvplan.engine.specs.base import AttentionSpec, LayerSpec
from kvplan.history import parallel as history

_WHOLE = frozenset({"dflash", "dspark"})
"""Methods whose drafts do not divide the context."""


def keep_drafts_whole(specs: Mapping[str, LayerSpec], config: EngineConfig) -> dict[str, LayerSpec]:
    """The specs, those of a draft that keeps the whole context on every rank marked so."""
    found, speculation = dict(specs), config.speculation
    if (
        speculation is None
        or speculation.method not in _WHOLE
        or config.decode_context_parallel == 1
        or config.model_runner != "V2"
        or not config.release.has(history.DRAFT_KEEPS_CONTEXT_WHOLE)
        or any(layer.kind is Kind.MLA for layer in speculation.layers)
    ):
        return found
    for layer in speculation.layers:
        spec = found.get(layer.name)
        if isinstance(spec, AttentionSpec):
            found[layer.name] = replace(spec, divided=False)
    return found
