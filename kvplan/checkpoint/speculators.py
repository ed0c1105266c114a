"""Draft models in the speculators format: their config wraps that of the draft's layers.

Source: `transformers_utils/configs/speculators` of vLLM, which turns such a config into that of a draft class.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.errors import InputError

MARK = "speculators_config"
"""The field that marks the format."""

_ARCHITECTURES: Mapping[str, Mapping[str, str]] = {
    "eagle3": {"qwen3": "Eagle3Qwen3ForCausalLM", "llama": "Eagle3LlamaForCausalLM"},
    "peagle": {"qwen3": "PeagleQwen3ForCausalLM", "llama": "PeagleLlamaForCausalLM"},
    "dflash": {"": "DFlashDraftModel"},
    "dflash2": {"": "DFlash2DraftModel"},
    "dspark": {"": "Qwen3DSparkModel"},
}
"""Draft class by kind of speculator and model type of its layers (any where the type is empty)."""


def is_speculator(config: Mapping[str, Any]) -> bool:
    """Whether a config.json is in the speculators format."""
    return config.get(MARK) is not None


def unwrap(config: Mapping[str, Any], file: str) -> dict[str, Any]:
    """The config of the draft's own layers, under the architecture of the draft class.

    Raises InputError where the config lacks its parts or is of a kind that vLLM does not know.
    """
    kind = config.get("speculators_model_type")
    classes = _ARCHITECTURES.get(str(kind))
    if classes is None:
        raise InputError(
            f"{file}: field 'speculators_model_type' is {kind!r}: must be one of {', '.join(_ARCHITECTURES)}"
        )
    layers = config.get("transformer_layer_config")
    if not isinstance(layers, Mapping):
        raise InputError(
            f"{file}: field 'transformer_layer_config' must be an object: the config of the draft's layers"
        )
    model_type = str(layers.get("model_type") or "llama")
    architecture = classes.get("") or classes.get(model_type)
    if architecture is None:
        raise InputError(
            f"{file}: field 'transformer_layer_config.model_type' is {model_type!r}: a {kind} draft has "
            f"{' or '.join(classes)}"
        )
    made = {**layers, "model_type": model_type, "architectures": [architecture]}
    for name in ("draft_vocab_size", "target_hidden_size", "block_size", "dtype", "torch_dtype"):
        if config.get(name) is not None and made.get(name) is None:
            made[name] = config[name]
    if str(kind).startswith("dflash"):
        made["dflash_config"] = {"causal": not config.get("sliding_window_non_causal", True)}
    if config.get("quantization_config") is not None and made.get("quantization_config") is None:
        made["quantization_config"] = config["quantization_config"]
    return made
