"""Quantisation methods release by release, and which one a launch ends up with.

Sources: `model_executor/layers/quantization/__init__.py` (the names), each method's `get_min_capability`,
`get_supported_act_dtypes`, `get_config_filenames` and `override_quantization_method`, and
`ModelConfig._verify_quantization` (config/model.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kvplan.engine.models import by_name
from kvplan.history import checks
from kvplan.releases import ALWAYS, Release, Span

_HALF_FIRST = ("float16", "bfloat16")
_BF16_FIRST = ("bfloat16", "float16")
_ANY = ("float32", "float16", "bfloat16")


@dataclass(frozen=True, slots=True)
class Method(Span):
    """One quantisation method in the releases of its span.

    `capability` is the least compute capability (90 for 9.0), `dtypes` the model dtypes it computes with, in vLLM's
    order, and `files` what a checkpoint without a quantization_config must bring.
    """

    name: str
    capability: int
    dtypes: tuple[str, ...]
    files: tuple[str, ...] = ()


_GPTQ = ("quantize_config.json",)
_AWQ = ("quantize_config.json", "quant_config.json")
_MODELOPT = ("hf_quant_config.json",)

METHODS: tuple[Method, ...] = (
    Method("awq", 75, ("float16",), _AWQ, until="0.23.0"),
    Method("awq", 75, _HALF_FIRST, _AWQ, since="0.24.0"),
    Method("auto_awq", 75, _HALF_FIRST, _AWQ, since="0.24.0"),
    Method("fp8", 75, _BF16_FIRST),
    Method("ptpc_fp8", 75, _BF16_FIRST, until="0.18.1"),
    Method("fbgemm_fp8", 80, _BF16_FIRST),
    Method("fp_quant", 100, ("bfloat16",)),
    Method("modelopt", 89, _BF16_FIRST, _MODELOPT, until="0.26.0"),
    Method("modelopt", 80, _BF16_FIRST, _MODELOPT, since="0.27.1"),
    Method("modelopt_fp4", 75, (*_BF16_FIRST, "float8_e4m3fn"), _MODELOPT),
    Method("modelopt_mxfp8", 100, ("bfloat16",), _MODELOPT, until="0.19.1"),
    Method("modelopt_mxfp8", 80, ("bfloat16",), _MODELOPT, since="0.20.2"),
    Method("modelopt_mixed", 89, _BF16_FIRST, _MODELOPT, since="0.17.1", until="0.23.0"),
    Method("modelopt_mixed", 75, _BF16_FIRST, _MODELOPT, since="0.24.0"),
    Method("auto_gptq", 60, _HALF_FIRST, _GPTQ, since="0.22.1"),
    Method("gptq_marlin", 75, _HALF_FIRST, _GPTQ, until="0.21.0"),
    Method("gptq_marlin", 60, _HALF_FIRST, _GPTQ, since="0.22.1"),
    Method("awq_marlin", 75, _HALF_FIRST, _GPTQ, until="0.23.0"),
    Method("awq_marlin", 75, _HALF_FIRST, _AWQ, since="0.24.0"),
    Method("gptq", 60, ("float16",), _GPTQ, until="0.21.0"),
    Method("gptq", 60, _HALF_FIRST, _GPTQ, since="0.22.1"),
    Method("humming", 75, _BF16_FIRST, since="0.20.2"),
    Method("compressed-tensors", 70, _ANY),
    Method("bitsandbytes", 70, _ANY, until="0.27.1"),
    Method("experts_int8", 80, _BF16_FIRST),
    Method("quark", 70, _HALF_FIRST),
    Method("moe_wna16", 70, _BF16_FIRST, _GPTQ),
    Method("torchao", 75, _ANY, ("config.json",)),
    Method("inc", 60, _HALF_FIRST, ("quantization_config.json",)),
    Method("mxfp4", 80, ("bfloat16",)),
    Method("gpt_oss_mxfp4", 80, ("bfloat16",), since="0.20.2"),
    Method("deepseek_v4_fp8", 75, _BF16_FIRST, since="0.20.2"),
    Method("petit_nvfp4", 90, _BF16_FIRST, _MODELOPT, until="0.19.1"),
    Method("gguf", 60, ("float16", "bfloat16", "float32"), until="0.23.0"),
    Method("cpu_awq", -1, _HALF_FIRST, _GPTQ, until="0.22.1"),
    Method("mxfp8", 100, _BF16_FIRST, since="0.19.1", until="0.19.1"),
    Method("mxfp8", 75, _BF16_FIRST, since="0.20.2", until="0.23.0"),
    Method("mxfp8", 80, ("bfloat16",), since="0.24.0"),
    Method("online", 75, _BF16_FIRST, since="0.20.2"),
    Method("fp8_per_tensor", 75, _BF16_FIRST, since="0.20.2"),
    Method("fp8_per_block", 75, _BF16_FIRST, since="0.20.2"),
    Method("fp8_per_channel", 75, _BF16_FIRST, since="0.24.0"),
    Method("int8_per_channel_weight_only", 75, _BF16_FIRST, since="0.20.2"),
    Method("nvfp4_per_token", 75, _BF16_FIRST, since="0.26.0"),
)

_DEPRECATED: Mapping[str, Span] = {
    "ptpc_fp8": Span(until="0.18.1"),
    "fbgemm_fp8": ALWAYS,
    "fp_quant": ALWAYS,
    "experts_int8": Span(until="0.19.1"),
    "petit_nvfp4": Span(until="0.19.1"),
}
"""Methods that start only with --allow-deprecated-quantization, with the releases that say so."""

_MARLIN_GROUPS = (-1, 32, 64, 128)


def known(release: Release) -> tuple[str, ...]:
    """The method names that `release` knows."""
    return tuple(method.name for method in METHODS if release.within(method))


def lookup(name: str, release: Release) -> Method | None:
    """The method `name` as `release` has it, or None."""
    for method in METHODS:
        if method.name == name and release.within(method):
            return method
    return None


def deprecated(name: str, release: Release) -> bool:
    """Whether `release` wants --allow-deprecated-quantization for this method."""
    return name in _DEPRECATED and release.within(_DEPRECATED[name])


def converted(
    section: Mapping[str, Any],
    asked: str | None,
    model_type: str,
    capability: tuple[int, int],
    release: Release,
    *,
    batch_invariant: bool = False,
) -> str | None:
    """The method that claims a checkpoint for itself, over what its section and the operator say; else None.

    `section` is the checkpoint's quantisation section with its `quant_method`, `asked` is `--quantization`,
    `model_type` that of the whole model and `batch_invariant` whether VLLM_BATCH_INVARIANT is set.
    """
    declared = str(section.get("quant_method", ""))
    if asked == "humming" and release.has(checks.HUMMING_METHOD):
        return "humming"
    if declared == "auto-round":
        return "inc"
    if declared in ("gptq", "awq"):
        steady = batch_invariant and declared == "awq" and release.has(checks.BATCH_INVARIANT_AWQ_KEEPS_ITS_METHOD)
        takes = not steady and _marlin_takes(declared, section, capability)
        return _integer_weights(declared, section, asked, capability, release, marlin_takes=takes)
    if declared.startswith("modelopt"):
        return _modelopt(declared, section, release)
    if declared == "compressed-tensors" and section.get("format") == "mxfp4-pack-quantized":
        own = model_type in by_name.MXFP4_IN_COMPRESSED_TENSORS and release.has(checks.KIMI_K3_MXFP4_METHOD)
        return "mxfp4" if own else None
    mxfp4 = declared in ("mxfp4", "gpt_oss_mxfp4") and model_type in by_name.MXFP4_OF_ITS_OWN
    if mxfp4 and release.has(checks.GPT_OSS_MXFP4_METHOD):
        return "gpt_oss_mxfp4"
    if declared in ("fp8", "deepseek_v4_fp8") and release.has(checks.DEEPSEEK_V4_FP8_METHOD):
        newer = model_type in by_name.DEEPSEEK_V41 and release.has(checks.DEEPSEEK_V41_FP8_METHOD)
        if model_type in by_name.DEEPSEEK_V4 or newer or asked == "deepseek_v4_fp8":
            return "deepseek_v4_fp8"
    return None


def _integer_weights(
    declared: str,
    section: Mapping[str, Any],
    asked: str | None,
    capability: tuple[int, int],
    release: Release,
    *,
    marlin_takes: bool,
) -> str | None:
    """GPTQ and AWQ: the Marlin kernels take over where they can, later one method holds all kernels."""
    unified = checks.GPTQ_IN_ONE_METHOD if declared == "gptq" else checks.AWQ_IN_ONE_METHOD
    if release.has(unified):
        if asked in (None, "marlin", declared, f"{declared}_marlin", f"auto_{declared}"):
            return f"auto_{declared}"
    elif asked in (None, "marlin", f"{declared}_marlin") and marlin_takes:
        return f"{declared}_marlin"
    if asked == "moe_wna16":
        bits = section.get("bits")
        if declared == "gptq" and not section.get("desc_act") and bits in (4, 8):
            return "moe_wna16"
        if declared == "awq" and bits == 4 and capability >= (7, 5):
            return "moe_wna16"
    return None


def _marlin_takes(declared: str, section: Mapping[str, Any], capability: tuple[int, int]) -> bool:
    needed = ("bits", "group_size", "sym", "desc_act") if declared == "gptq" else ("bits", "group_size", "zero_point")
    if capability < (7, 5) or any(section.get(name) is None for name in needed):
        return False
    if declared == "gptq":
        takes = section.get("sym") is True and section.get("bits") in (4, 8)
    else:
        takes = bool(section.get("zero_point")) and section.get("bits") == 4
    return takes and section.get("group_size") in _MARLIN_GROUPS


def _modelopt(declared: str, section: Mapping[str, Any], release: Release) -> str | None:
    if declared != "modelopt" and not release.has(checks.MODELOPT_ALGO_UNDER_ANY_NAME):
        return None
    inner = section.get("quantization", section)
    if not isinstance(inner, Mapping):
        return None
    algorithm = str(inner.get("quant_algo", "")).upper()
    if algorithm == "FP8":
        return "modelopt"
    if "FP4" in algorithm:
        return "modelopt_fp4"
    if "MXFP8" in algorithm:
        return "modelopt_mxfp8"
    if algorithm == "MIXED_PRECISION" and release.has(checks.MODELOPT_MIXED_METHOD):
        return "modelopt_mixed"
    return None
