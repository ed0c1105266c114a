"""The cache dtype that a launch asks for, and the layers it keeps out of it. Source: `engine/arg_utils.py`."""

from __future__ import annotations

from kvplan.checkpoint.values import Checkpoint
from kvplan.engine.cache_dtypes import boundary_layers
from kvplan.engine.cache_dtypes.dtypes import known
from kvplan.engine.failures import InvalidValue
from kvplan.engine.models.geometry import ModelGeometry
from kvplan.engine.options import given
from kvplan.engine.stop import config_refuses
from kvplan.engine.values import Stage, Step
from kvplan.launch.values import Launch


def requested_dtype(launch: Launch) -> str:
    """`--kv-cache-dtype`. Raises StartupStops for one that the release does not know."""
    value = str(given.value(launch, "kv_cache_dtype"))
    accepted = known(launch.release)
    if value not in accepted:
        raise config_refuses(
            Stage.OPTIONS,
            InvalidValue(option="--kv-cache-dtype", value=value, accepted=accepted),
            f"Invalid kv_cache_dtype: {value!r}. Valid values are: {list(accepted)}",
        )
    return value


def skip_list(
    checkpoint: Checkpoint, launch: Launch, geometry: ModelGeometry, cache_dtype: str
) -> tuple[tuple[str, ...], list[Step]]:
    """The skip list, with the layers that the cache dtype itself adds, and the step that says so."""
    named = tuple(given.value(launch, "kv_cache_dtype_skip_layers") or ())
    if not boundary_layers.applies(cache_dtype):
        return named, []
    tokens = boundary_layers.skip_tokens(
        named, cache_dtype, checkpoint, is_hybrid=geometry.is_hybrid, release=launch.release
    )
    added = [token for token in tokens if token not in named]
    if not added:
        return tokens, []
    why = f"{cache_dtype} keeps the layers at both ends of the model in the model's dtype"
    step = Step(
        Stage.OPTIONS,
        "cache.skip_list",
        " ".join(tokens),
        why,
        layers=tuple(sorted(map(int, added))),
        option="--kv-cache-dtype",
    )
    return tokens, [step]
