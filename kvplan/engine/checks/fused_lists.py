"""Lists of unquantised modules that name one part of a layer which vLLM builds in one piece.

Sources: `is_layer_skipped` (quantization/utils/quant_utils.py) and `should_ignore_layer` (compressed_tensors/utils.py).
Queries, keys and values are one layer, and so are the gate and the up projection of an MLP: all parts must be
quantised, or none. Left out: fused layers of other names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from kvplan.checkpoint.values import Checkpoint
from kvplan.engine.checks.weight_parts import Linear, parts
from kvplan.engine.config import EngineConfig
from kvplan.engine.failures import CheckpointQuantisationRefused
from kvplan.engine.models.geometry import Kind, ModelGeometry
from kvplan.engine.stop import StartupStops, stop
from kvplan.engine.values import Stage

_PARTS = {"qkv_proj": ("q_proj", "k_proj", "v_proj"), "gate_up_proj": ("gate_proj", "up_proj")}
_EXACT = ("fp8", "deepseek_v4_fp8", "modelopt", "modelopt_fp4", "modelopt_mxfp8")
_SUBSTRING = ("awq", "awq_marlin", "auto_awq")


def check(checkpoint: Checkpoint, geometry: ModelGeometry, config: EngineConfig, *, feed_forward: bool) -> None:
    """Raises StartupStops at the first fused layer of attention, or of what comes behind it, that is listed in part."""
    section, method = checkpoint.quantization, config.quantization_method
    if section is None or method is None:
        return
    fused = "gate_up_proj" if feed_forward else "qkv_proj"
    if method in _EXACT:
        _check_exact(_listed(section), geometry, fused)
        return
    if method not in (*_SUBSTRING, "compressed-tensors"):
        return
    packed = method == "compressed-tensors"
    listed = [str(name) for name in section.get("ignore" if packed else "modules_to_not_convert") or ()]
    for part in parts(geometry, checkpoint.text_config, config, feed_forward=feed_forward):
        head, _, last = part.name.rpartition(".")
        if not isinstance(part, Linear) or last != fused:
            continue
        found = [_is_listed(f"{head}.{name}", listed, packed=packed) for name in _PARTS[fused]]
        if any(found) and not all(found):
            raise _different(part.name) if packed else _refusal(part.name)


def _listed(section: Mapping[str, Any]) -> frozenset[str]:
    inner = section.get("quantization")
    inner = inner if isinstance(inner, Mapping) else section
    for name in ("ignored_layers", "modules_to_not_convert", "exclude_modules", "ignore"):
        names = inner.get(name)
        if isinstance(names, (list, tuple)) and names:
            return frozenset(map(str, names))
    return frozenset()


def _check_exact(listed: frozenset[str], geometry: ModelGeometry, fused: str) -> None:
    """Whole names are listed, so the list itself tells which layers are concerned."""
    wanted = _PARTS[fused]
    plain = {layer.index for layer in geometry.layers if layer.kind is Kind.ATTENTION}
    concerned: dict[int, str] = {}
    for name in listed:
        head, _, last = name.rpartition(".")
        place = re.fullmatch(r"model\.layers\.(\d+)\.(self_attn|mlp)", head)
        if place is None or last not in wanted or int(place[1]) not in plain:
            continue
        if f"{head}.{fused}" not in listed and any(f"{head}.{part}" not in listed for part in wanted):
            concerned[int(place[1])] = f"{head}.{fused}"
    if concerned:
        raise _refusal(concerned[min(concerned)])


def _is_listed(name: str, listed: Iterable[str], *, packed: bool) -> bool:
    if packed:
        return any(
            re.match(other.removeprefix("re:"), name) is not None if other.startswith("re:") else other == name
            for other in listed
        )
    return any(other in name for other in listed)


def _refusal(layer: str) -> StartupStops:
    return _stop(
        f"Detected some but not all shards of {layer} are quantized. All shards of fused layers to have the same "
        "precision."
    )


def _different(layer: str) -> StartupStops:
    return _stop(
        f"Found different quantization schemes for the shards of {layer}. vLLM requires all to use the same scheme."
    )


def _stop(message: str) -> StartupStops:
    return stop(Stage.LAYERS, CheckpointQuantisationRefused(method="quantised", served_since=None), message)
