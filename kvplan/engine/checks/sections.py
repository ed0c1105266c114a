"""What a quantisation method's config class demands of the checkpoint's section when it is made of it.

Sources: `__init__` and `from_config` of the classes below `model_executor/layers/quantization`, which
`get_quant_config` (model_executor/model_loader/weight_utils.py) calls while the engine config is built. ModelOpt's are
in `modelopt`; those of compressed-tensors, AutoRound and TorchAO are not followed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from kvplan.engine.failures import CheckpointQuantisationRefused, QuantisationOrder
from kvplan.engine.stop import StartupStops, config_refuses
from kvplan.engine.values import Stage
from kvplan.history import checks
from kvplan.releases import Release

_GPTQ = (("bits",), ("group_size",), ("desc_act",))


@dataclass(frozen=True, slots=True)
class _Fields:
    """What a method's section must have: one name of each group."""

    method: str
    groups: tuple[tuple[str, ...], ...]
    title: str
    """What people call the method."""


_REQUIRED = (
    _Fields("gptq", _GPTQ, "GPTQ"),
    _Fields("gptq_marlin", (*_GPTQ, ("sym",)), "GPTQ"),
    _Fields("auto_gptq", (*_GPTQ, ("sym",)), "GPTQ"),
    _Fields("awq", (("w_bit", "bits"), ("q_group_size", "group_size"), ("zero_point",)), "AWQ"),
    _Fields("auto_awq", (("w_bit", "bits"), ("q_group_size", "group_size"), ("zero_point",)), "AWQ"),
    _Fields("awq_marlin", (("bits",), ("group_size",), ("zero_point",)), "AWQ"),
    _Fields("moe_wna16", (("bits",), ("group_size",)), "moe_wna16"),
    _Fields("fp8", (("activation_scheme",),), "FP8"),
    _Fields("deepseek_v4_fp8", (("activation_scheme",),), "FP8"),
    _Fields("fbgemm_fp8", (("modules_to_not_convert",), ("activation_scale_ub",)), "FBGEMM"),
)


def check(section: Mapping[str, Any], method: str, release: Release) -> None:
    """Raises StartupStops at the first thing in `section` that the class of `method` refuses."""
    row = next((row for row in _REQUIRED if row.method == method), None)
    title = method if row is None else row.title
    for names in () if row is None else row.groups:
        if not any(name in section for name in names):
            raise _refusal(f"Cannot find any of {list(names)} in the model's quantization config.", title)
    if method in ("gptq", "gptq_marlin", "auto_gptq", "moe_wna16"):
        _order(section, release)
    objection = {
        "gptq": _gptq,
        "gptq_marlin": _gptq_marlin,
        "auto_gptq": _gptq_marlin,
        "awq": _awq,
        "awq_marlin": _awq_marlin,
        "auto_awq": _auto_awq,
        "fp8": _fp8,
        "deepseek_v4_fp8": _fp8,
        "quark": _quark,
    }.get(method)
    message = None if objection is None else objection(section)
    if message is not None:
        raise _refusal(message, title)


def _refusal(message: str, title: str) -> StartupStops:
    return config_refuses(Stage.OPTIONS, CheckpointQuantisationRefused(method=title, served_since=None), message)


def _order(section: Mapping[str, Any], release: Release) -> None:
    """Newer kernels have no order of activations; with one group a column it means nothing."""
    ordered = section.get("desc_act") and section.get("group_size") != -1
    if ordered and release.has(checks.ACTIVATION_ORDER_REMOVED):
        raise config_refuses(
            Stage.OPTIONS,
            QuantisationOrder(),
            "GPTQ group activation ordering (desc_act=True) is no longer supported. Use a checkpoint with static "
            "activation ordering or desc_act=False.",
        )


def _gptq(section: Mapping[str, Any]) -> str | None:
    bits = section["bits"]
    if bits in (2, 3, 4, 8):
        return None
    return f"Currently, only 2/3/4/8-bit weight quantization is supported for GPTQ, but got {bits} bits."


def _gptq_marlin(section: Mapping[str, Any]) -> str | None:
    """Marlin's types: symmetric, four or eight bits."""
    bits, symmetric = section["bits"], section["sym"]
    if (bits, symmetric) in ((4, True), (8, True)):
        return None
    return f"Unsupported quantization config: bits={bits}, sym={symmetric}"


def _bits(section: Mapping[str, Any]) -> Any:
    return section.get("w_bit", section.get("bits"))


def _awq(section: Mapping[str, Any]) -> str | None:
    bits = _bits(section)
    if bits == 4:
        return None
    return f"Currently, only 4-bit weight quantization is supported for AWQ, but got {bits} bits."


def _awq_marlin(section: Mapping[str, Any]) -> str | None:
    bits = section["bits"]
    return None if bits == 4 else f"Unsupported num_bits = {bits}. Supported num_bits = dict_keys([4])"


def _auto_awq(section: Mapping[str, Any]) -> str | None:
    bits = _bits(section)
    if bits == 4:
        return None
    return (
        f"Unsupported num_bits = {bits}. Supported: 4. For 8-bit AWQ, use Marlin backend by setting "
        "backend='awq:marlin' or backend='marlin'."
    )


def _fp8(section: Mapping[str, Any]) -> str | None:
    scheme, block = section["activation_scheme"], section.get("weight_block_size")
    if scheme not in ("static", "dynamic"):
        return f"Unsupported activation scheme {scheme}"
    if not isinstance(block, (list, tuple)):
        return None
    if len(block) != 2:
        return f"The quantization block size of weight must have 2 dimensions, but got {len(block)} dimensions"
    if scheme != "dynamic":
        return (
            "The block-wise quantization only supports dynamic activation scheme for now, but got "
            f"{scheme} activation scheme."
        )
    return None


def _quark(section: Mapping[str, Any]) -> str | None:
    """Layers whose outputs are the cache must have rules, all the same."""
    export = section.get("export")
    if not isinstance(export, Mapping):
        return "The export key should be included in the configurations of Quark quantized model"
    wanted = [str(name) for name in export.get("kv_cache_group") or ()]
    if not wanted:
        return None
    rules = section.get("layer_quant_config")
    rules = rules if isinstance(rules, Mapping) else {}
    mine = [rule for name, rule in rules.items() if any(fnmatchcase(str(name), pattern) for pattern in wanted)]
    if not mine and not set(wanted) <= set(rules):
        return (
            "The Quark quantized model has the kv_cache_group parameter setting, but no kv_cache quantization "
            "settings were found in the quantization configuration."
        )
    outputs = [rule.get("output_tensors") if isinstance(rule, Mapping) else None for rule in mine]
    if any(output != outputs[0] for output in outputs):
        return (
            "The quantization method used for kv_cache should be the same, but the quantization method for the "
            "kv_cache layer in the config is different."
        )
    return "The kv_cache quantization configuration is empty." if outputs and outputs[0] is None else None
