"""Draft models in the speculators format: their config wraps that of the draft's layers.

Source: `transformers_utils/configs/speculators` of vLLM, which turns such a config into that of a draft class.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.errors import InputError

MARK = "speculators_config"
"""The field that marks the format."""

KIND = "speculators_model_type"
"""The field with the kind of speculator, which the unwrapped config keeps."""

_ARCHITECTURES: Mapping[str, Mapping[str, str]] = {
    "eagle3": {"qwen3": "Eagle3Qwen3ForCausalLM", "llama": "Eagle3LlamaForCausalLM"},
    "peagle": {"qwen3": "PeagleQwen3ForCausalLM", "llama": "PeagleLlamaForCausalLM"},
    "dflash": {"": "DFlashDraftModel"},
    "dflash2": {"": "DFlash2DraftModel"},
    "dspark": {"": "Qwen3DSparkModel"},
}
"""Draft class by kind of speculator and model type of its layers (any where the type is empty)."""


_METHODS: Mapping[str, Mapping[str, Any]] = {
    "peagle": {"method": "eagle3", "parallel_drafting": True},
    "dflash2": {"method": "dflash"},
}
"""What a speculative config says of kinds that are not methods of their own."""


class Speculator(InputError):  # noqa: N818 - mostly no error: vLLM serves the model it names
    """A draft in the speculators format stands where a model to serve is read."""

    def __init__(self, config: Mapping[str, Any], file: str) -> None:
        super().__init__(f"{file}: is a draft for speculative decoding (field '{MARK}'): give the model it drafts for")
        self.config = config
        self.file = file


def verifier(config: Mapping[str, Any], file: str) -> tuple[str, dict[str, Any]]:
    """The model that a draft in the speculators format drafts for, and the speculative config that vLLM makes of it.

    The config lacks the draft's own name. Raises InputError where the file does not say what vLLM reads from it
    (`validate_speculators_config` and `build_vllm_speculative_config`).
    """
    kind = str(config.get(KIND))
    own = config.get(MARK)
    methods = own.get("proposal_methods") if isinstance(own, Mapping) else None
    first = methods[0] if isinstance(methods, list) and methods else None
    tokens = first.get("speculative_tokens") if isinstance(first, Mapping) else None
    if isinstance(tokens, bool) or not isinstance(tokens, int):
        raise InputError(
            f"{file}: field '{MARK}.proposal_methods[0].speculative_tokens' must be a whole number: the tokens to "
            "speculate"
        )
    checked = own.get("verifier") if isinstance(own, Mapping) else None
    name = checked.get("name_or_path") if isinstance(checked, Mapping) else None
    if not isinstance(name, str) or not name:
        raise InputError(f"{file}: field '{MARK}.verifier.name_or_path' must name the model that it drafts for")
    return name, {"method": kind, "num_speculative_tokens": tokens, **_METHODS.get(kind, {})}


def is_speculator(config: Mapping[str, Any]) -> bool:
    """Whether a config.json is in the speculators format."""
    return config.get(MARK) is not None


def unwrap(config: Mapping[str, Any], file: str) -> dict[str, Any]:
    """The config of the draft's own layers, under the architecture of the draft class.

    Raises InputError where the config lacks its parts or is of a kind that vLLM does not know.
    """
    kind = config.get(KIND)
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
    made = {**layers, "model_type": model_type, "architectures": [architecture], KIND: str(kind)}
    for name in ("draft_vocab_size", "target_hidden_size", "block_size", "dtype", "torch_dtype"):
        if config.get(name) is not None and made.get(name) is None:
            made[name] = config[name]
    if str(kind).startswith("dflash"):
        made["dflash_config"] = {"causal": not config.get("sliding_window_non_causal", True)}
    if config.get("quantization_config") is not None and made.get("quantization_config") is None:
        made["quantization_config"] = config["quantization_config"]
    return made
