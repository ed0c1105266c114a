"""What rules and reports may ask the engine beyond the plan itself.

They know the engine's values (`engine.values`), its failures (`engine.failures`) and this module, and nothing else of
it, so that the stages behind can change. A test holds them to it.
"""

from __future__ import annotations

from kvplan.checkpoint.values import Checkpoint
from kvplan.engine.cache_dtypes.boundary_layers import applies as brings_boundary_layers
from kvplan.engine.cache_dtypes.dtypes import element_bytes, is_packed, is_quantised
from kvplan.engine.cache_dtypes.dtypes import known as cache_dtypes
from kvplan.engine.cache_dtypes.kv_scheme import compressed_tensors_scheme
from kvplan.engine.cache_dtypes.modelopt import cache_dtype as modelopt_cache_dtype
from kvplan.engine.cache_dtypes.modelopt import section as modelopt_section
from kvplan.engine.cache_dtypes.packing import TURBOQUANT_BITS, rocm_block_size, rocm_page, rocm_slot, rotary_dim
from kvplan.engine.coverage import is_covered
from kvplan.engine.models import build, registered
from kvplan.engine.models.geometry import Kind, LayerGeometry, Role
from kvplan.engine.models.overview import Overview
from kvplan.engine.models.refusals import Refused, Unplaceable
from kvplan.engine.options.connectors import transfer as connector
from kvplan.engine.options.connectors import transfers_by_nixl
from kvplan.engine.options.connectors import working_with_hybrid as connectors_working_with_hybrid
from kvplan.engine.options.machine import known_to_machine_only
from kvplan.engine.speculation.wanted import KEYS as SPECULATIVE_KEYS
from kvplan.engine.speculation.wanted import METHODS as SPECULATIVE_METHODS
from kvplan.engine.values import Plan
from kvplan.releases import KNOWN, Release, resolve

__all__ = [
    "SPECULATIVE_KEYS",
    "SPECULATIVE_METHODS",
    "TURBOQUANT_BITS",
    "Kind",
    "LayerGeometry",
    "Overview",
    "Role",
    "boundary_layers",
    "brings_class_later",
    "cache_dtypes",
    "compressed_tensors_scheme",
    "connector",
    "connectors_working_with_hybrid",
    "element_bytes",
    "is_covered",
    "is_packed",
    "is_quantised",
    "known_to_machine_only",
    "memory_budget",
    "modelopt_cache_dtype",
    "modelopt_section",
    "rocm_block_size",
    "rocm_page",
    "rocm_slot",
    "rotary_dim",
    "serves",
    "transfers_by_nixl",
    "wraps_transformers",
]


def wraps_transformers(architecture: str) -> bool:
    """Whether the class is one of the Transformers backend."""
    return any(entry.wraps_transformers for entry in registered.known_to(architecture))


def brings_class_later(architecture: str, release: Release) -> str | None:
    """The first known release after `release` with a class of vLLM's own for an architecture that `release` does not
    register; None where it does, or none follows."""
    if registered.lookup(architecture, release) is not None or release.acts_as not in KNOWN:
        return None
    for name in KNOWN[KNOWN.index(release.acts_as) + 1 :]:
        entry = registered.lookup(architecture, resolve(name))
        if entry is not None and not entry.wraps_transformers:
            return name
    return None


def serves(checkpoint: Checkpoint, release: Release) -> bool:
    """Whether `release` has a class for the model, be it one that kvplan does not emulate."""
    try:
        build(checkpoint, release)
    except Refused:
        return False
    except Unplaceable:
        return True
    return True


def boundary_layers(plan: Plan) -> tuple[int, ...]:
    """Decoder layers that the cache dtype itself put on the skip list."""
    settings = plan.settings
    if settings is None or not brings_boundary_layers(settings.requested_cache_dtype):
        return ()
    given = set(plan.launch.get("kv_cache_dtype_skip_layers") or ())
    return tuple(sorted(int(token) for token in settings.skip_tokens if token not in given))


def memory_budget(plan: Plan) -> int | None:
    """Bytes of one GPU that vLLM may use for everything; None where no GPU was named, or a size of the cache is asked
    for, which takes the place of the share (`request_memory`, v1/worker/utils.py)."""
    settings, hardware = plan.settings, plan.launch.hardware
    if settings is None or hardware.assumed or settings.kv_cache_memory_bytes is not None:
        return None
    return int(hardware.memory_bytes * settings.gpu_memory_utilization)
