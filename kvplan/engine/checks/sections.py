"""What a quantisation method's config class demands of the checkpoint's section when it is made of it.

Sources: `__init__` and `from_config` of the classes below `model_executor/layers/quantization`, which
`get_quant_config` (model_executor/model_loader/weight_utils.py) calls while the engine config is built. ModelOpt's are
in `modelopt`; those of AutoRound and TorchAO are not followed, of compressed-tensors only the order of activations.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

from kvplan.engine.failures import CheckpointQuantisationRefused, QuantisationOrder
from kvplan.engine.stop import StartupStops, config_refuses
from kvplan.engine.values import Stage
from kvplan.history import checks
from kvplan.releases import ALWAYS, Release, Span

_Keys = tuple[tuple[str, ...], ...]

_GPTQ: _Keys = (("bits",), ("group_size",), ("desc_act",), ("sym",))
_AWQ: _Keys = (("w_bit", "bits"), ("q_group_size", "group_size"), ("zero_point",))
_FP8: _Keys = (("activation_scheme",),)
_FP_QUANT: _Keys = (
    *(("hadamard_group_size",), ("forward_dtype",), ("forward_method",)),
    *(("pseudoquantization",), ("modules_to_not_convert",)),
)

_REQUIRED: tuple[tuple[str, Span, _Keys], ...] = (
    ("awq", ALWAYS, _AWQ),
    ("auto_awq", ALWAYS, _AWQ),
    ("awq_marlin", Span(until="0.23.0"), (("bits",), ("group_size",), ("zero_point",))),
    ("awq_marlin", Span(since="0.24.0"), _AWQ),
    ("gptq", Span(until="0.21.0"), _GPTQ[:3]),
    ("gptq", Span(since="0.22.1"), _GPTQ),
    ("gptq_marlin", ALWAYS, _GPTQ),
    ("auto_gptq", ALWAYS, _GPTQ),
    ("moe_wna16", ALWAYS, _GPTQ[:2]),
    ("fp8", ALWAYS, _FP8),
    ("deepseek_v4_fp8", ALWAYS, _FP8),
    ("fbgemm_fp8", ALWAYS, (("modules_to_not_convert",), ("activation_scale_ub",))),
    ("fp_quant", ALWAYS, _FP_QUANT),
)
"""Keys that a method's class cannot do without, in the order in which it asks for them; of names in one tuple any."""

_TITLES = {"fp8": "FP8", "deepseek_v4_fp8": "FP8", "fbgemm_fp8": "FBGEMM", "moe_wna16": "moe_wna16", "quark": "Quark"}
"""What people call methods whose name does not begin with it."""


def check(section: Mapping[str, Any], method: str, release: Release) -> None:
    """Raises StartupStops at the first thing in `section` that the class of `method` refuses."""
    title = _TITLES.get(method) or next((name for name in ("GPTQ", "AWQ") if name.lower() in method), method)
    for name, span, keys in _REQUIRED:
        missing = next((names for names in keys if not any(one in section for one in names)), None)
        if name == method and release.within(span) and missing is not None:
            raise _refusal(f"Cannot find any of {list(missing)} in the model's quantization config.", title)
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
    }.get(method)
    message = None if objection is None else objection(section)
    if message is not None:
        raise _refusal(message, title)
    if method == "quark":
        _check_quark(section)
    if method == "compressed-tensors" and release.has(checks.ACTIVATION_ORDER_REMOVED):
        _check_orders(section)


def _refusal(message: str, title: str, raised: str = "ValueError") -> StartupStops:
    facts = CheckpointQuantisationRefused(method=title, served_since=None)
    return config_refuses(Stage.OPTIONS, facts, message, raised=raised)


def _order(section: Mapping[str, Any], release: Release) -> None:
    """Newer kernels have no order of activations; with one group a column it means nothing."""
    ordered = section.get("desc_act") and section.get("group_size") != -1
    if ordered and release.has(checks.ACTIVATION_ORDER_REMOVED):
        raise config_refuses(
            Stage.OPTIONS,
            QuantisationOrder(field="desc_act"),
            "GPTQ group activation ordering (desc_act=True) is no longer supported. Use a checkpoint with static "
            "activation ordering or desc_act=False.",
        )


def _check_orders(section: Mapping[str, Any]) -> None:
    """Each group of layers says how its columns are ordered; true means by their activations.

    Groups for attention alone are set aside before they are read.
    """
    groups = section.get("config_groups")
    for group in groups.values() if isinstance(groups, Mapping) else ():
        targets, weights = (group.get("targets"), group.get("weights")) if isinstance(group, Mapping) else (None, None)
        if not isinstance(targets, (list, tuple)) or not targets or not isinstance(weights, Mapping):
            continue
        if len(targets) == 1 and str(targets[0]).endswith("Attention"):
            continue
        order = weights.get("actorder")
        named = "group" if order is True else str(order).lower()
        if named in ("group", "dynamic"):
            raise config_refuses(
                Stage.OPTIONS,
                QuantisationOrder(field="actorder"),
                f"Compressed-tensors group/dynamic activation ordering (actorder={named!r}) is no longer supported. "
                "Use a checkpoint with static/weight activation ordering or without activation ordering.",
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


def _check_quark(section: Mapping[str, Any]) -> None:
    """Quark says in `export` which layers write the cache; the section of these has to say how."""
    export = section.get("export")
    if not isinstance(export, Mapping):
        raise _refusal("The export key should be included in the configurations of Quark quantized model", "Quark")
    patterns, layers = export.get("kv_cache_group"), section.get("layer_quant_config")
    if patterns is None:
        raise _refusal("object of type 'NoneType' has no len()", "Quark", raised="TypeError")
    if not patterns:
        return
    if not isinstance(layers, Mapping):
        raise _refusal("'NoneType' object has no attribute 'keys'", "Quark", raised="AttributeError")
    named = [one for name, one in layers.items() if any(fnmatchcase(name, pattern) for pattern in patterns)]
    if not named:
        raise _refusal(
            "The Quark quantized model has the kv_cache_group parameter setting, but no kv_cache quantization settings "
            "were found in the quantization configuration.",
            "Quark",
        )
    written = [one.get("output_tensors") for one in named if isinstance(one, Mapping)]
    if any(one != written[0] for one in written):
        raise _refusal(
            "The quantization method used for kv_cache should be the same, but the quantization method for the "
            "kv_cache layer in the config is different.",
            "Quark",
        )
    if written and written[0] is None:
        raise _refusal("The kv_cache quantization configuration is empty.", "Quark")
