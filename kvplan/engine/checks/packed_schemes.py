"""Compressed-tensors sections for whose layers vLLM has no scheme on the GPU.

Source: `_get_scheme_from_parts` (quantization/compressed_tensors/compressed_tensors.py). Followed are four-bit integers
beside eight-bit float activations, which only Hopper's kernels multiply. Left out: other pairs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.checkpoint.values import Checkpoint
from kvplan.engine.config import EngineConfig
from kvplan.engine.failures import CheckpointQuantisationRefused
from kvplan.engine.stop import stop
from kvplan.engine.values import Stage

HOPPER = (9, 0)


def check(checkpoint: Checkpoint, config: EngineConfig) -> None:
    """Raises StartupStops where the linear layers of the model have no scheme."""
    section = checkpoint.quantization
    if section is None or config.quantization_method != "compressed-tensors" or config.hardware.capability == HOPPER:
        return
    groups = section.get("config_groups")
    if not isinstance(groups, Mapping) or len(groups) != 1:
        return
    (group,) = groups.values()
    if isinstance(group, Mapping) and "Linear" in (group.get("targets") or ()) and _is_mixed(group):
        raise stop(
            Stage.LAYERS,
            CheckpointQuantisationRefused(method="compressed-tensors", served_since=None),
            "No compressed-tensors compatible scheme was found",
            exception="NotImplementedError",
        )


def _is_mixed(group: Mapping[str, Any]) -> bool:
    weights, inputs = group.get("weights"), group.get("input_activations")
    if not isinstance(weights, Mapping) or not isinstance(inputs, Mapping):
        return False
    integers = (weights.get("type"), weights.get("num_bits"), weights.get("strategy")) == ("int", 4, "group")
    floats = (inputs.get("type"), inputs.get("num_bits"), inputs.get("strategy")) == ("float", 8, "token")
    return integers and floats
