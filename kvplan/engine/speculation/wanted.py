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
from kvplan.releases import ALWAYS, Release, Span

FLAGS = (
    ("spec_method", "--spec-method", "method"),
    ("spec_model", "--spec-model", "model"),
    ("spec_tokens", "--spec-tokens", "num_speculative_tokens"),
)
"""Options that stand for one key of the config: vLLM's field, its flag, the key."""

KEYS: Mapping[str, Span] = {
    "enforce_eager": ALWAYS,
    "num_speculative_tokens": ALWAYS,
    "model": ALWAYS,
    "method": ALWAYS,
    "draft_tensor_parallel_size": ALWAYS,
    "tensor_parallel_size": ALWAYS,
    "quantization": ALWAYS,
    "max_model_len": ALWAYS,
    "revision": ALWAYS,
    "code_revision": ALWAYS,
    "disable_by_batch_size": Span(until="0.16.0"),
    "disable_padded_drafter_batch": ALWAYS,
    "prompt_lookup_max": ALWAYS,
    "prompt_lookup_min": ALWAYS,
    "speculative_token_tree": Span(until="0.20.2"),
    "parallel_drafting": ALWAYS,
    "target_model_config": ALWAYS,
    "target_parallel_config": ALWAYS,
    "draft_model_config": ALWAYS,
    "draft_parallel_config": ALWAYS,
    "suffix_decoding_max_tree_depth": ALWAYS,
    "suffix_decoding_max_cached_requests": ALWAYS,
    "suffix_decoding_max_spec_factor": ALWAYS,
    "suffix_decoding_min_token_prob": ALWAYS,
    "use_local_argmax_reduction": Span(since="0.17.1"),
    "draft_load_config": Span(since="0.17.1"),
    "rejection_sample_method": Span(since="0.18.1"),
    "moe_backend": Span(since="0.19.1"),
    "synthetic_acceptance_rate": Span(since="0.19.1", until="0.19.1"),
    "synthetic_acceptance_rates": Span(since="0.20.2"),
    "synthetic_acceptance_length": Span(since="0.20.2"),
    "attention_backend": Span(since="0.21.0"),
    "draft_sample_method": Span(since="0.21.0"),
    "num_speculative_tokens_per_batch_size": Span(since="0.24.0"),
    "use_heterogeneous_vocab": Span(since="0.25.1"),
    "kv_cache_dtype": Span(since="0.26.0"),
    "enable_adaptive_verification": Span(since="0.28.0"),
    "dspark_draft_topk": Span(since="0.28.0"),
    "index_share_for_mtp_iteration": Span(since="0.29.0"),
    "disable_eagle_block_drop": Span(since="0.30.0"),
    "disable_lookahead_block_hashes": Span(since="0.33.0"),
    "draft_lm_head_quantization": Span(since="0.33.0"),
    "xpress_topc": Span(since="0.33.0"),
    "fly_window_size": Span(since="0.33.0"),
    "fly_entropy_threshold": Span(since="0.33.0"),
    "fly_entropy_top_k": Span(since="0.33.0"),
}
"""Keys of --speculative-config, with the releases that accept them."""

METHODS: Mapping[str, Span] = {
    "ngram": ALWAYS,
    "medusa": Span(until="0.32.0"),
    "mlp_speculator": Span(until="0.32.0"),
    "draft_model": ALWAYS,
    "suffix": ALWAYS,
    "custom_class": Span(since="0.22.1"),
    "eagle": ALWAYS,
    "eagle3": ALWAYS,
    "extract_hidden_states": Span(since="0.17.1"),
    "deepseek_mtp": ALWAYS,
    "dots3_note_mtp": Span(since="0.28.0"),
    "mimo_mtp": ALWAYS,
    "mimo_v2_mtp": Span(since="0.21.0"),
    "glm4_moe_mtp": ALWAYS,
    "glm4_moe_lite_mtp": ALWAYS,
    "glm_ocr_mtp": ALWAYS,
    "ernie_mtp": ALWAYS,
    "nemotron_h_mtp": Span(since="0.17.1"),
    "exaone_moe_mtp": ALWAYS,
    "exaone4_5_mtp": Span(since="0.20.2"),
    "qwen3_next_mtp": ALWAYS,
    "qwen4_exp_mtp": Span(since="0.29.0"),
    "qwen3_5_mtp": Span(since="0.17.1"),
    "longcat_flash_mtp": ALWAYS,
    "bailing_hybrid_v3_mtp": Span(since="0.28.0"),
    "minimax_m3_mtp": Span(since="0.24.0"),
    "bailing_hybrid_mtp": Span(since="0.25.1"),
    "mtp": ALWAYS,
    "kimi_k3_mtp": Span(since="0.27.1"),
    "pangu_ultra_moe_mtp": ALWAYS,
    "step3p5_mtp": ALWAYS,
    "step5_mtp": Span(since="0.33.0"),
    "hy_v3_mtp": Span(since="0.20.2"),
    "hy_v4_mtp": Span(since="0.29.0"),
    "gemma4_mtp": Span(since="0.21.0"),
    "inkling_mtp": Span(since="0.26.0"),
    "glm5_next_mtp": Span(since="0.30.0"),
    "dflash": Span(since="0.20.2"),
    "ngram_gpu": Span(since="0.18.1"),
    "dspark": Span(since="0.25.1"),
}
"""Names of methods, in vLLM's order, with the releases that accept them. Those that end in `_mtp` mean `mtp`."""


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
        if span is None or not release.within(span):
            known = tuple(name for name, of in KEYS.items() if release.within(of))
            raise refused(of_field(key, "Unexpected keyword argument"), key, config[key], known)
    _check_value(config, "num_speculative_tokens", release)
    method = config.get("method")
    if method is not None:
        span = METHODS.get(str(method))
        if span is None or not release.within(span):
            known = tuple(name for name, of in METHODS.items() if release.within(of))
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
