"""Which quantisation section of a checkpoint counts, as vLLM picks it.

`config.json`'s own `quantization_config` wins; only where it has none is `hf_quant_config.json` (older ModelOpt
checkpoints) read, and then it becomes the config's `quantization_config` (`transformers_utils/config.py`,
`get_config`). The method name is normalised as `model_arch_config_convertor.py` does. `auto` cache dtypes look
only at the top-level section (`utils/torch_utils.py`, `resolve_kv_cache_dtype_string`), which stays readable as
`Checkpoint.config["quantization_config"]`; the section picked here may also come from `compression_config` or
from the language model's config.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_MODELOPT_METHODS: Mapping[str, str] = {
    "FP8": "modelopt",
    "FP8_PER_CHANNEL_PER_TOKEN": "modelopt",
    "FP8_PB_WO": "modelopt",
    "NVFP4": "modelopt_fp4",
    "MIXED_PRECISION": "modelopt_mixed",
}
"""ModelOpt's `quant_algo` -> vLLM's quantisation method. Others make vLLM refuse the model."""


def picked(config: Mapping[str, Any]) -> dict[str, Any] | None:
    """The section that vLLM verifies, with its `quant_method` as vLLM names it; None for unquantised weights.

    An algorithm that vLLM does not know keeps whatever `quant_method` the file gives, for a later stage to refuse.
    """
    section = _normalised(config)
    text = config.get("text_config")
    if section is None and isinstance(text, Mapping):
        section = _normalised(text)
    return section


def _normalised(config: Mapping[str, Any]) -> dict[str, Any] | None:
    section = config.get("quantization_config")
    named = section is not None
    if section is None:
        section = config.get("compression_config")
    if not isinstance(section, Mapping):
        return None
    result = dict(section)
    if named and (method := _modelopt_method(result)) is not None:
        result["quant_method"] = method
    method = result.get("quant_method")
    result["quant_method"] = str(method or "").lower().replace("compressed_tensors", "compressed-tensors")
    return result


def _modelopt_method(section: Mapping[str, Any]) -> str | None:
    """The method of a ModelOpt section that carries its algorithm in a nested `quantization`."""
    producer, nested = section.get("producer"), section.get("quantization")
    if not isinstance(nested, Mapping):
        return None
    by_modelopt = isinstance(producer, Mapping) and producer.get("name") == "modelopt"
    if not by_modelopt and "modelopt_quant_config" not in nested:
        return None
    return _MODELOPT_METHODS.get(str(nested.get("quant_algo")).upper())
