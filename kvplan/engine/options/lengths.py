"""The longest request (`--max-model-len`), in tokens. Sources: `config/model.py`, `config/speculative.py`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kvplan.checkpoint.values import Checkpoint
from kvplan.engine.failures import ContextTooLong
from kvplan.engine.models.by_name import LENGTH_INCLUDES_SCALING
from kvplan.engine.models.fields import Fields
from kvplan.engine.options import given
from kvplan.engine.speculation.values import Speculation
from kvplan.engine.stop import config_refuses
from kvplan.engine.values import Stage
from kvplan.history import capacity
from kvplan.history import speculation as speculative
from kvplan.launch.values import Launch
from kvplan.releases import Release

_LENGTH_KEYS = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "model_max_length",
    "max_target_positions",
    "max_sequence_length",
    "max_seq_length",
    "seq_len",
)
"""Config fields that bound the context length; the smallest counts, `model_max_length` above all."""
_ORIGINAL = "original_max_position_embeddings"
_UNSCALED_ROPE = frozenset({"su", "longrope", "llama3"})
_ALSO_UNSCALED_ROPE = frozenset({"yarn", "deepseek_yarn", "deepseek_llama_scaling"})
_TABLE_ONLY_ROPE = frozenset({"default", "linear", "llama3", "ntk", "proportional"})
"""Rope types for which the context length only sizes the table of sines."""


def max_model_len(checkpoint: Checkpoint, launch: Launch) -> tuple[int, str]:
    """`--max-model-len` resolved and checked against what the config allows, with the reason.

    An automatic length (-1) starts from the derived one; capacity shortens it later.
    """
    text = checkpoint.text_config
    fields = Fields(text, checkpoint.file)
    asked = given.value(launch, "max_model_len")
    asked = -1 if asked == "auto" else asked
    window = text.get("sliding_window") if given.value(launch, "disable_sliding_window") else None
    derived, key = _derived_length(fields, launch.release, window if isinstance(window, int) and window else None)
    if derived is None:
        if asked is not None:  # an automatic length stays -1, which is refused later on
            return int(asked), f"--max-model-len {asked}"
        derived, key = 2048, "no length field in the config"
    if asked is None or asked == -1:
        if any(rope.get("rope_type") == "longrope" for rope in _rope_parameters(text)):
            original = fields.factor(_ORIGINAL, text.get(_ORIGINAL) or derived)
            return int(original), "LongRoPE models default to original_max_position_embeddings"
        return int(derived), f"derived from the config ({key})"
    _hold(asked, derived, key, text, launch)
    return int(asked), f"--max-model-len {asked}"


def check_longest(asked: int, draft: Checkpoint, launch: Launch) -> None:
    """Raises StartupStops where a draft's config does not allow the length that its own config asks for."""
    derived, key = _derived_length(Fields(draft.text_config, draft.file), launch.release, None)
    if derived is not None:
        _hold(asked, derived, key, draft.text_config, launch)


def _hold(asked: float, derived: float, key: str | None, text: Mapping[str, Any], launch: Launch) -> None:
    limit = text.get("model_max_length")
    allowed = given.variable(launch, "VLLM_ALLOW_LONG_MAX_MODEL_LEN")
    if asked <= derived or allowed or (limit is not None and asked <= limit):
        return
    raise config_refuses(
        Stage.OPTIONS,
        ContextTooLong(asked=int(asked), derived=int(derived)),
        f"User-specified max_model_len ({asked}) is greater than the derived max_model_len ({key}={derived:g} or "
        f"model_max_length={limit} in model's config.json). To allow overriding this maximum, set the env var "
        "VLLM_ALLOW_LONG_MAX_MODEL_LEN=1.",
    )


def draft_limit(speculation: Speculation | None, runner: str, release: Release) -> int | None:
    """The longest request that the draft takes, where that bounds the target's (0.33.0, V2 runner).

    Drafts that share the target's positions are stretched where their rope only sizes a table.
    """
    if speculation is None or speculation.checkpoint is None or runner != "V2":
        return None
    if not release.has(speculative.LENGTH_LIMITED_BY_DRAFT):
        return None
    text = speculation.checkpoint.text_config
    ropes = [str(rope.get("rope_type", rope.get("type", "default"))) for rope in _rope_parameters(text)]
    if speculation.method != "draft_model" and all(rope in _TABLE_ONLY_ROPE for rope in ropes):
        return None
    if speculation.max_model_len is not None:
        return speculation.max_model_len
    derived, _ = _derived_length(Fields(text, speculation.checkpoint.file), release, None)
    return None if derived is None else int(derived)


def _derived_length(fields: Fields, release: Release, disabled_window: int | None) -> tuple[float | None, str | None]:
    """The context length the config allows, and the field that says so; (None, None) where none does."""
    text = fields.values
    lengths = [(fields.factor(key, text[key]), key) for key in _LENGTH_KEYS if isinstance(text.get(key), (int, float))]
    derived: float | None = None
    key: str | None = None
    for length, name in lengths:
        if derived is None or length < derived:
            derived, key = length, name
    if text.get("model_max_length"):
        derived, key = fields.factor("model_max_length", text["model_max_length"]), "model_max_length"
    if disabled_window is not None and (derived is None or disabled_window < derived):
        derived, key = disabled_window, "sliding_window"
    if derived is None:
        return None, None
    model_type = str(text.get("model_type", ""))
    if any(part in model_type for part in LENGTH_INCLUDES_SCALING):
        return derived, key
    yarn_in_config = release.has(capacity.YARN_LENGTH_IN_CONFIG)
    unscaled = _UNSCALED_ROPE | _ALSO_UNSCALED_ROPE if yarn_in_config else _UNSCALED_ROPE
    factor: float | None = 1.0
    for rope in _rope_parameters(text):
        rope_type = rope.get("rope_type", rope.get("type"))
        if isinstance(rope_type, str) and rope_type in unscaled:
            continue
        scale = rope.get("factor", factor)
        factor = None if scale is None else fields.factor("rope_parameters.factor", scale)
        if rope_type == "yarn" and not yarn_in_config and rope.get(_ORIGINAL):
            derived = fields.factor(f"rope_parameters.{_ORIGINAL}", rope[_ORIGINAL])
    return derived * (1.0 if factor is None else factor), key


def _rope_parameters(config: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The rope parameters of a config, one set a layer type where they differ by layer type."""
    parameters = config.get("rope_parameters") or config.get("rope_scaling")
    if not isinstance(parameters, Mapping):
        return
    nested = [value for value in parameters.values() if isinstance(value, Mapping)]
    if nested and "rope_type" not in parameters:
        yield from nested
    elif "rope_type" in parameters or "type" in parameters:
        yield parameters
