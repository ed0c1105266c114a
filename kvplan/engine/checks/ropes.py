"""Whether vLLM can read the rope parameters, in several sets or with two names for the type (`patch_rope_parameters`,
transformers_utils/config.py)."""

from __future__ import annotations

from collections.abc import Mapping

from kvplan.checkpoint.normalise import ORIGINAL, ROPES
from kvplan.checkpoint.values import Checkpoint
from kvplan.engine.failures import ConfigNotRead, ConfigValueRefused
from kvplan.engine.stop import config_refuses
from kvplan.engine.values import Stage
from kvplan.history import checks
from kvplan.releases import Release, Span

_LAYER_TYPES = frozenset(
    {
        "chunked_attention",
        "compressed_sparse_attention",
        "conv",
        "dense",
        "full_attention",
        "heavily_compressed_attention",
        "hybrid",
        "hybrid_sliding",
        "indexed_attention",
        "linear_attention",
        "minimax_m3_sparse",
        "moe",
        "reference_sliding_attention",
        "sliding_attention",
        "sparse",
        "window_attention",
    }
)
"""Layer types of transformers: sets named after these are told apart."""

_READ_BY_VLLM: Mapping[str, Span] = {"deepseek_v4": Span(since="0.20.2")}
"""Model types whose sets have other names, with the releases that bring a config class for them."""

_SAME = frozenset({("su", "longrope"), ("mrope", "default")})
"""Old and new names of the same type."""


def check(checkpoint: Checkpoint, release: Release) -> None:
    """Raises StartupStops where the config's rope parameters look like one set that lacks its type, or has two."""
    text = checkpoint.text_config
    original = text.get(ORIGINAL)
    parameters = original[ROPES] if isinstance(original, Mapping) and ROPES in original else text.get(ROPES)
    _check_names(parameters)
    if not isinstance(parameters, Mapping) or not parameters or {"rope_type", "type"} & parameters.keys():
        return
    sets = [isinstance(value, Mapping) for value in parameters.values()]
    mixed = any(sets) and not all(sets)
    own = _READ_BY_VLLM.get(checkpoint.model_type)
    since = None if own is None else own.since
    if mixed and release.has(checks.ROPE_SETS_WITH_COMMON_ENTRIES):
        return
    if mixed:
        since = checks.ROPE_SETS_WITH_COMMON_ENTRIES.since
    elif not all(sets) or _LAYER_TYPES.issuperset(parameters) or (own is not None and release.within(own)):
        return
    raise config_refuses(
        Stage.OPTIONS,
        ConfigNotRead(field="rope_parameters", since=since),
        "rope_parameters should have a 'rope_type' key",
    )


def _check_names(parameters: object) -> None:
    """A rope has one type, under the new name of the field or the old one."""
    if not isinstance(parameters, Mapping):
        return
    for one in (parameters, *parameters.values()):
        if not isinstance(one, Mapping) or not {"rope_type", "type"} <= one.keys():
            continue
        new, old = one["rope_type"], one["type"]
        if new != old and (old, new) not in _SAME:
            raise config_refuses(
                Stage.OPTIONS,
                ConfigValueRefused(field="rope_type", value=new),
                f"Found conflicts between 'rope_type={new}' (modern field) and 'type={old}' (legacy field). You should "
                "only specify one of them.",
            )
