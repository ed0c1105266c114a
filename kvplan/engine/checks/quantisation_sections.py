"""What the config class of a quantisation method asks of the checkpoint's section.

Sources: `from_config` and `__init__` of the classes in model_executor/layers/quantization, which `VllmConfig` makes
before it asks for the GPU's capability and the model's dtype.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from kvplan.engine.failures import ConfigValueRefused
from kvplan.engine.stop import StartupStops, config_refuses
from kvplan.engine.values import Stage
from kvplan.releases import Release, Span

_Keys = tuple[tuple[str, ...], ...]

_GPTQ: _Keys = (("bits",), ("group_size",), ("desc_act",), ("sym",))
_AWQ: _Keys = (("w_bit", "bits"), ("q_group_size", "group_size"), ("zero_point",))

_KEYS: tuple[tuple[str, Span, _Keys], ...] = (
    ("awq", Span(), _AWQ),
    ("auto_awq", Span(), _AWQ),
    ("awq_marlin", Span(until="0.23.0"), (("bits",), ("group_size",), ("zero_point",))),
    ("awq_marlin", Span(since="0.24.0"), _AWQ),
    ("gptq", Span(until="0.21.0"), _GPTQ[:3]),
    ("gptq", Span(since="0.22.1"), _GPTQ),
    ("gptq_marlin", Span(), _GPTQ),
    ("auto_gptq", Span(), _GPTQ),
    ("fp8", Span(), (("activation_scheme",),)),
    ("fbgemm_fp8", Span(), (("modules_to_not_convert",), ("activation_scale_ub",))),
    (
        "fp_quant",
        Span(),
        (
            *(("hadamard_group_size",), ("forward_dtype",), ("forward_method",)),
            *(("pseudoquantization",), ("modules_to_not_convert",)),
        ),
    ),
)
"""Keys that a method's class cannot do without, in the order in which it asks for them; of names in one tuple any."""


def check(section: Mapping[str, Any], method: str, release: Release) -> None:
    """Raises StartupStops where the class of `method` cannot be made of the checkpoint's section."""
    for name, span, keys in _KEYS:
        if name == method and span.covers(release.acts_as):
            _check_keys(section, keys)
    if method == "fp8":
        _check_fp8(section)
    if method == "quark":
        _check_quark(section)


def _check_keys(section: Mapping[str, Any], keys: _Keys) -> None:
    for names in keys:
        if not any(name in section for name in names):
            raise _refused(names[-1], None, f"Cannot find any of {list(names)} in the model's quantization config.")


def _check_fp8(section: Mapping[str, Any]) -> None:
    scheme, block = section["activation_scheme"], section.get("weight_block_size")
    if scheme not in ("static", "dynamic"):
        raise _refused("activation_scheme", scheme, f"Unsupported activation scheme {scheme}")
    if not isinstance(block, Sequence):
        return
    if len(block) != 2:
        raise _refused(
            "weight_block_size",
            block,
            f"The quantization block size of weight must have 2 dimensions, but got {len(block)} dimensions",
        )
    if scheme != "dynamic":
        raise _refused(
            "activation_scheme",
            scheme,
            "The block-wise quantization only supports dynamic activation scheme for now, but got "
            f"{scheme} activation scheme.",
        )


def _check_quark(section: Mapping[str, Any]) -> None:
    """Quark says in `export` which layers write the cache; the section of these has to say how."""
    export = section.get("export")
    if not isinstance(export, Mapping):
        raise _refused(
            "export", None, "The export key should be included in the configurations of Quark quantized model"
        )
    patterns, layers = export.get("kv_cache_group"), section.get("layer_quant_config")
    if patterns is None:
        raise _refused("export.kv_cache_group", None, "object of type 'NoneType' has no len()", raised="TypeError")
    if not patterns:
        return
    if not isinstance(layers, Mapping):
        raise _refused("layer_quant_config", None, "'NoneType' object has no attribute 'keys'", raised="AttributeError")
    named = [one for name, one in layers.items() if any(fnmatchcase(name, pattern) for pattern in patterns)]
    if not named:
        raise _refused(
            "layer_quant_config",
            list(layers),
            "The Quark quantized model has the kv_cache_group parameter setting, but no kv_cache quantization settings "
            "were found in the quantization configuration.",
        )
    written = [one.get("output_tensors") for one in named if isinstance(one, Mapping)]
    if any(one != written[0] for one in written):
        raise _refused(
            "layer_quant_config",
            list(layers),
            "The quantization method used for kv_cache should be the same, but the quantization method for the "
            "kv_cache layer in the config is different.",
        )
    if written and written[0] is None:
        raise _refused("layer_quant_config", list(layers), "The kv_cache quantization configuration is empty.")


def _refused(field: str, value: object, message: str, raised: str = "ValueError") -> StartupStops:
    facts = ConfigValueRefused(field=f"quantization_config.{field}", value=value)
    return config_refuses(Stage.OPTIONS, facts, message, raised=raised)
