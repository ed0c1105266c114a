"""What the operator asked of speculative decoding: `--speculative-config` and the flags that fill it.

Source: `create_speculative_config` (engine/arg_utils.py), the fields of SpeculativeConfig (config/speculative.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kvplan.engine.failures import SpeculativeConfigRefused
from kvplan.engine.stop import StartupStops, config_refuses, of_field, stop
from kvplan.engine.values import Stage
from kvplan.history import speculation as history
from kvplan.launch import fieldvalues
from kvplan.launch.values import Launch
from kvplan.releases import Release

FLAGS = (
    ("spec_method", "--spec-method", "method"),
    ("spec_model", "--spec-model", "model"),
    ("spec_tokens", "--spec-tokens", "num_speculative_tokens"),
)
"""Options that stand for one key of the config: vLLM's field, its flag, the key."""

KEYS: Mapping[str, tuple[str | None, str | None]] = {
    "enforce_eager": (None, None),
    "num_speculative_tokens": (None, None),
    "model": (None, None),
    "method": (None, None),
    "draft_tensor_parallel_size": (None, None),
    "tensor_parallel_size": (None, None),
    "quantization": (None, None),
    "max_model_len": (None, None),
    "revision": (None, None),
    "code_revision": (None, None),
    "disable_by_batch_size": (None, "0.16.0"),
    "disable_padded_drafter_batch": (None, None),
    "prompt_lookup_max": (None, None),
    "prompt_lookup_min": (None, None),
    "speculative_token_tree": (None, "0.20.2"),
    "parallel_drafting": (None, None),
    "target_model_config": (None, None),
    "target_parallel_config": (None, None),
    "draft_model_config": (None, None),
    "draft_parallel_config": (None, None),
    "suffix_decoding_max_tree_depth": (None, None),
    "suffix_decoding_max_cached_requests": (None, None),
    "suffix_decoding_max_spec_factor": (None, None),
    "suffix_decoding_min_token_prob": (None, None),
    "use_local_argmax_reduction": ("0.17.1", None),
    "draft_load_config": ("0.17.1", None),
    "rejection_sample_method": ("0.18.1", None),
    "moe_backend": ("0.19.1", None),
    "synthetic_acceptance_rate": ("0.19.1", "0.19.1"),
    "synthetic_acceptance_rates": ("0.20.2", None),
    "synthetic_acceptance_length": ("0.20.2", None),
    "attention_backend": ("0.21.0", None),
    "draft_sample_method": ("0.21.0", None),
    "num_speculative_tokens_per_batch_size": ("0.24.0", None),
    "use_heterogeneous_vocab": ("0.25.1", None),
    "kv_cache_dtype": ("0.26.0", None),
    "enable_adaptive_verification": ("0.28.0", None),
    "dspark_draft_topk": ("0.28.0", None),
    "index_share_for_mtp_iteration": ("0.29.0", None),
    "disable_eagle_block_drop": ("0.30.0", None),
    "disable_lookahead_block_hashes": ("0.33.0", None),
    "draft_lm_head_quantization": ("0.33.0", None),
    "xpress_topc": ("0.33.0", None),
    "fly_window_size": ("0.33.0", None),
    "fly_entropy_threshold": ("0.33.0", None),
    "fly_entropy_top_k": ("0.33.0", None),
}
"""Keys of --speculative-config: first and last release that accept them."""

METHODS: Mapping[str, tuple[str | None, str | None]] = {
    "ngram": (None, None),
    "medusa": (None, "0.32.0"),
    "mlp_speculator": (None, "0.32.0"),
    "draft_model": (None, None),
    "suffix": (None, None),
    "custom_class": ("0.22.1", None),
    "eagle": (None, None),
    "eagle3": (None, None),
    "extract_hidden_states": ("0.17.1", None),
    "deepseek_mtp": (None, None),
    "dots3_note_mtp": ("0.28.0", None),
    "mimo_mtp": (None, None),
    "mimo_v2_mtp": ("0.21.0", None),
    "glm4_moe_mtp": (None, None),
    "glm4_moe_lite_mtp": (None, None),
    "glm_ocr_mtp": (None, None),
    "ernie_mtp": (None, None),
    "nemotron_h_mtp": ("0.17.1", None),
    "exaone_moe_mtp": (None, None),
    "exaone4_5_mtp": ("0.20.2", None),
    "qwen3_next_mtp": (None, None),
    "qwen4_exp_mtp": ("0.29.0", None),
    "qwen3_5_mtp": ("0.17.1", None),
    "longcat_flash_mtp": (None, None),
    "bailing_hybrid_v3_mtp": ("0.28.0", None),
    "minimax_m3_mtp": ("0.24.0", None),
    "bailing_hybrid_mtp": ("0.25.1", None),
    "mtp": (None, None),
    "kimi_k3_mtp": ("0.27.1", None),
    "pangu_ultra_moe_mtp": (None, None),
    "step3p5_mtp": (None, None),
    "step5_mtp": ("0.33.0", None),
    "hy_v3_mtp": ("0.20.2", None),
    "hy_v4_mtp": ("0.29.0", None),
    "gemma4_mtp": ("0.21.0", None),
    "inkling_mtp": ("0.26.0", None),
    "glm5_next_mtp": ("0.30.0", None),
    "dflash": ("0.20.2", None),
    "ngram_gpu": ("0.18.1", None),
    "dspark": ("0.25.1", None),
}
"""Names of methods, in vLLM's order: first and last release that accept them. Those that end in `_mtp` mean `mtp`."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The speculative config as given, checked for what its own fields allow."""

    values: Mapping[str, Any]

    def text(self, key: str) -> str | None:
        """A string, None where absent."""
        value = self.values.get(key)
        return None if value is None else str(value)

    def whole(self, key: str) -> int | None:
        """A whole number, None where absent."""
        value = self.values.get(key)
        return None if value is None else int(value)

    def flag(self, key: str) -> bool:
        """A switch, off where absent."""
        return bool(self.values.get(key))


def refused(
    message: str, key: str, value: object, accepted: tuple[str, ...] = (), raised: str = "ValueError"
) -> StartupStops:
    """The refusal of one key's value by the speculative config, which has `raised` an exception."""
    facts = SpeculativeConfigRefused(key=key, value=value, accepted=accepted)
    return config_refuses(Stage.OPTIONS, facts, message, raised=raised)


def asked(launch: Launch) -> Mapping[str, Any] | None:
    """The config as the operator wrote it, flags included; None without speculative decoding.

    Raises StartupStops where a flag and the config say the same thing.
    """
    given = launch.get("speculative_config")
    if given is not None and not isinstance(given, Mapping):
        raise _not_a_mapping(launch.release, given)
    merged: dict[str, Any] | None = None if given is None else dict(given)
    for name, flag, key in FLAGS:
        value = launch.get(name)
        if value is None:
            continue
        merged = {} if merged is None else merged
        if key in merged:
            message = f"{flag} and --speculative-config['{key}'] are mutually exclusive"
            raise stop(Stage.OPTIONS, SpeculativeConfigRefused(key=key, value=value), message)
        merged[key] = value
    return merged


def _not_a_mapping(release: Release, given: object) -> StartupStops:
    """Nobody checks that the JSON is an object before its keys are used."""
    method = "items" if release.has(history.DASHES_IN_KEYS) else "update"
    return stop(
        Stage.OPTIONS,
        SpeculativeConfigRefused(key="speculative_config", value=given),
        f"{type(given).__name__!r} object has no attribute {method!r}",
        exception="AttributeError",
    )


def draft_reference(launch: Launch) -> str | None:
    """The draft model to load: what `model` names, unless the method needs none or the target holds it."""
    try:
        config = asked(launch)
    except StartupStops:
        return None
    if not config:
        return None
    model, method = config.get("model"), config.get("method")
    if not isinstance(model, str) or model in ("ngram", "[ngram]", "suffix", "ngram_gpu", "extract_hidden_states"):
        return None
    if method in ("ngram", "[ngram]", "ngram_gpu", "suffix", "custom_class", "extract_hidden_states"):
        return None
    return None if names_a_class(model, method, launch.release) else model


def names_a_class(model: str | None, method: str | None, release: Release) -> bool:
    """Whether `model` is the import path of a proposer class."""
    if model is None or "/" in model or "." not in model or model.startswith(("http://", "https://", "file://")):
        return False
    if release.has(history.DOTTED_MODEL_IS_CUSTOM_CLASS):
        return True
    importable = all(part.isidentifier() for part in model.split("."))
    return importable and method is None and release.has(history.DOTTED_MODEL_WITHOUT_METHOD_IS_CUSTOM_CLASS)


def wanted(launch: Launch) -> Wanted | None:
    """The speculative config, checked. Raises StartupStops where its fields refuse a value."""
    config, release = asked(launch), launch.release
    if config is None:
        return None
    if release.has(history.DASHES_IN_KEYS):
        config = {key.replace("-", "_"): value for key, value in config.items()}
    for key in config:
        span = KEYS.get(key)
        if span is None or not release.within(*span):
            known = tuple(name for name, of in KEYS.items() if release.within(*of))
            raise refused(of_field(key, "Unexpected keyword argument"), key, config[key], known)
    _check_value(config, "num_speculative_tokens", release)
    method = config.get("method")
    if method is not None:
        span = METHODS.get(str(method))
        if span is None or not release.within(*span):
            known = tuple(name for name, of in METHODS.items() if release.within(*of))
            listed = f"{', '.join(map(repr, known[:-1]))} or {known[-1]!r}"
            raise refused(of_field("method", f"Input should be {listed}"), "method", method, known)
    for key in KEYS:
        _check_value(config, key, release)
    return Wanted(config)


def _check_value(config: Mapping[str, Any], key: str, release: Release) -> None:
    """Raises StartupStops where the field of the config class does not take the value."""
    if key not in config:
        return
    objection = next(iter(fieldvalues.objections("speculative_config", key, config[key], release)), None)
    if objection is not None:
        raise refused(of_field(key, objection), key, config[key])
