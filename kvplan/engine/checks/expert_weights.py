"""How the weights of routed experts are stored, and which method of vLLM's makes them.

Sources: `get_quant_method` of the quantisation configs (model_executor/layers/quantization) for routed experts, and
`CompressedTensorsMoEMethod.get_moe_method`. Left out: sections whose rules differ between layers, AutoRound and Quark.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from typing import Any

from kvplan.checkpoint.values import Checkpoint
from kvplan.engine.config import EngineConfig
from kvplan.history import checks
from kvplan.releases import Release, Span

PROJECTIONS = ("gate_proj", "up_proj", "down_proj")
"""The projections of an expert as checkpoints mostly name them."""
_PACKED = (
    ("CompressedTensorsWNA16MarlinMoEMethod", Span(until="0.26.0")),
    ("CompressedTensorsWNA16MoEMethod", Span(since="0.27.1")),
)
"""vLLM's class for packed integers, by releases."""
_INPUTS = {"fp8_block": "fp8_group", "fp8_channel": "fp8_token"}


@dataclass(frozen=True, slots=True)
class ExpertWeights:
    """What routed experts are made of: a kind of `expert_backends.KINDS`, weight and input as in `expert_kernels`.

    `kind` is None where nothing asks for a backend. `method` is vLLM's class. `cutlass` tells whether vLLM's own
    CUTLASS kernels may be chosen, `every_input` whether all variants of a backend are tried.
    """

    method: str
    kind: str | None = None
    weight: str = "none"
    input: str = "none"
    cutlass: bool = True
    every_input: bool = False


class MixedProjectionsError(Exception):
    """The projections of one expert are quantised differently."""


PLAIN = ExpertWeights("UnquantizedFusedMoEMethod", "unquantized")


def expert_weights(
    checkpoint: Checkpoint, config: EngineConfig, name: str, projections: tuple[str, ...]
) -> ExpertWeights | None:
    """The weights of the routed experts called `name`, None where kvplan does not follow the checkpoint's section.

    `projections` are the names of what one expert holds. Raises MixedProjectionsError where vLLM refuses.
    """
    section, method, release = checkpoint.quantization, config.quantization_method, config.release
    if method is None:
        return PLAIN
    if section is None:
        return None
    if method == "fp8":
        return PLAIN if _listed_whole(section, name) else _fp8(section)
    if method == "deepseek_v4_fp8":
        return _deepseek_v4(checkpoint, section)
    if method in ("mxfp4", "gpt_oss_mxfp4"):
        open_weights = method == "gpt_oss_mxfp4"
        title = "GptOssMxfp4MoEMethod" if open_weights else "Mxfp4MoEMethod"
        return ExpertWeights(title, "mxfp4", "mxfp4", every_input=not open_weights)
    if method.startswith("modelopt"):
        return _modelopt(section, method, name)
    if method == "compressed-tensors":
        return _compressed_tensors(section, name, release, projections)
    if method in ("auto_gptq", "gptq_marlin"):
        title = "AutoGPTQMoEMethod" if method == "auto_gptq" else "GPTQMarlinMoEMethod"
        return ExpertWeights(title, "integers", *_integers(section.get("bits"), section.get("group_size")))
    if method in ("auto_awq", "awq_marlin", "awq"):
        if any(str(listed) in name for listed in section.get("modules_to_not_convert") or ()):
            return PLAIN
        title = "AutoAWQMoEMethod" if method == "auto_awq" else "AWQMarlinMoEMethod"
        return ExpertWeights(title, "integers", *_integers(4, section.get("group_size")))
    return ExpertWeights("MoeWNA16Method") if method in ("moe_wna16", "gptq") else None


def _integers(bits: object, group: object) -> tuple[str, str]:
    return ("int8" if bits == 8 else "int4_32" if group == 32 else "int4"), "none"


def _fp8(section: Mapping[str, Any]) -> ExpertWeights:
    block = section.get("weight_block_size")
    if block:
        whole = list(block) == [128, 128]
        return ExpertWeights(
            "Fp8MoEMethod", "fp8", "fp8_block" if whole else "fp8_other_block", "fp8_group", cutlass=False
        )
    given = "fp8_static" if section.get("activation_scheme") == "static" else "fp8_dynamic"
    return ExpertWeights("Fp8MoEMethod", "fp8", "fp8_tensor", given, cutlass=False)


def _listed_whole(section: Mapping[str, Any], name: str) -> bool:
    """Whether a list of unquantised layers names experts of this layer."""
    listed = section.get("ignored_layers") or section.get("modules_to_not_convert") or ()
    return any(name in str(other) for other in listed)


def _deepseek_v4(checkpoint: Checkpoint, section: Mapping[str, Any]) -> ExpertWeights:
    if checkpoint.config.get("expert_dtype", "fp4") != "fp4":
        return _fp8(section)
    if str(section.get("moe_quant_algo") or "").upper() == "NVFP4":
        return ExpertWeights("ModelOptNvFp4FusedMoE", "nvfp4", "nvfp4", "nvfp4")
    return ExpertWeights("Mxfp4MoEMethod", "mxfp4", "mxfp4", "mxfp8", every_input=True)


def _modelopt(section: Mapping[str, Any], method: str, name: str) -> ExpertWeights | None:
    inner = section.get("quantization")
    inner = inner if isinstance(inner, Mapping) else section
    if _excluded(inner, name):
        return PLAIN
    algorithm = str(inner.get("quant_algo", "")).upper()
    if method == "modelopt_mixed":
        layers = inner.get("quantized_layers")
        layers = layers if isinstance(layers, Mapping) else {}
        mine = (rule for layer, rule in layers.items() if "experts" in str(layer) and "shared" not in str(layer))
        rule = next((rule for rule in mine if isinstance(rule, Mapping)), None)
        if rule is None:
            return None
        algorithm = str(rule.get("quant_algo", "")).upper()
    if algorithm in ("NVFP4", "W4A16_NVFP4"):
        given = "none" if algorithm == "W4A16_NVFP4" else "nvfp4"
        return ExpertWeights("ModelOptNvFp4FusedMoE", "nvfp4", "nvfp4", given)
    if algorithm == "MXFP8":
        return ExpertWeights("ModelOptMxFp8FusedMoE", "mxfp8", "mxfp8", "mxfp8")
    if algorithm == "FP8":
        return ExpertWeights("ModelOptFp8MoEMethod", "fp8", "fp8_tensor", "fp8_static", cutlass=False)
    return None


def _excluded(section: Mapping[str, Any], name: str) -> bool:
    listed = [str(other) for other in section.get("exclude_modules") or section.get("ignore") or ()]
    short = name.removeprefix("language_model.")
    return any(other in name or other in short or fnmatch(name, other) for other in listed)


def _compressed_tensors(
    section: Mapping[str, Any], name: str, release: Release, projections: tuple[str, ...]
) -> ExpertWeights | None:
    """The scheme that the section has for each projection of the first expert, which must be one."""
    groups = section.get("config_groups")
    groups = {key: group for key, group in groups.items() if isinstance(group, Mapping)} if groups else {}
    ignored = [str(other) for other in section.get("ignore") or ()]
    named = projections if release.has(checks.EXPERTS_NAME_THEIR_PROJECTIONS) else PROJECTIONS
    found = [_group_of(f"{name}.0.{last}", groups, ignored) for last in named]
    if any(group != found[0] for group in found):
        raise MixedProjectionsError
    if found[0] is None:
        return PLAIN
    return _scheme(groups[found[0]], release)


def _group_of(name: str, groups: Mapping[str, Mapping[str, Any]], ignored: list[str]) -> str | None:
    """The key of the group that takes a layer, by its name or else as a linear layer."""
    if any(_matches(name, other) for other in ignored):
        return None
    targets = [(str(target), key) for key, group in groups.items() for target in group.get("targets") or ()]
    by_name = (key for target, key in targets if _matches(name, target))
    return next(by_name, next((key for target, key in targets if target == "Linear"), None))


def _matches(name: str, pattern: str) -> bool:
    if pattern.startswith("re:"):
        return re.match(pattern.removeprefix("re:"), name) is not None
    return pattern == name


def _scheme(group: Mapping[str, Any], release: Release) -> ExpertWeights | None:
    weights, given = group.get("weights"), group.get("input_activations")
    if not isinstance(weights, Mapping):
        return None
    bits, kind, strategy = weights.get("num_bits"), weights.get("type"), weights.get("strategy")
    size = weights.get("group_size")
    if kind == "float" and bits == 4 and strategy == "group" and size == 32:
        return None if given else ExpertWeights("CompressedTensorsW4A4Mxfp4MoEMethod")
    if kind == "float" and bits == 4 and strategy == "tensor_group":
        inputs = "nvfp4" if given else "none"
        return ExpertWeights("CompressedTensorsW4A4Nvfp4MoEMethod", "nvfp4", "nvfp4", inputs)
    if kind == "int" and not given and bits in (4, 8) and strategy in ("group", "channel"):
        title = next(title for title, span in _PACKED if release.within(span))
        return ExpertWeights(title, "integers", *_integers(bits, size))
    if kind == "float" and bits == 8 and isinstance(given, Mapping) and strategy in ("block", "channel", "tensor"):
        weight = f"fp8_{strategy}"
        dynamic = "fp8_dynamic" if given.get("dynamic") else "fp8_static"
        return ExpertWeights("CompressedTensorsW8A8Fp8MoEMethod", "fp8", weight, _INPUTS.get(weight, dynamic))
    if kind == "int" and bits == 8 and isinstance(given, Mapping):
        return ExpertWeights("CompressedTensorsW8A8Int8MoEMethod", "int8", "int8_channel", "int8_token")
    return None
