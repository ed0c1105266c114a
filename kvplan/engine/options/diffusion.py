"""`--diffusion-config`: the canvas that a diffusion model writes at once. Source: `config/diffusion.py`.

It counts as speculative tokens (`VllmConfig.num_speculative_tokens`) whatever the model, so state layers keep more.
"""

from __future__ import annotations

from collections.abc import Mapping

from kvplan.engine.failures import InvalidValue
from kvplan.engine.options import given
from kvplan.engine.stop import StartupStops, config_refuses, of_field
from kvplan.engine.values import Stage
from kvplan.launch.values import Launch

FIELDS = ("canvas_length", "max_denoising_steps")


def tokens(launch: Launch) -> int:
    """Tokens of the canvas, 0 without one. Raises StartupStops for a config that its class refuses."""
    config = given.value(launch, "diffusion_config")
    if not isinstance(config, Mapping):
        return 0
    unknown = next((field for field in config if field not in FIELDS), None)
    if unknown is not None:
        raise _refused(unknown, "Unexpected keyword argument")
    length = config.get("canvas_length")
    if length is None:
        if "canvas_length" in config:
            raise _refused("canvas_length", "Input should be a valid integer")
        return 0
    if isinstance(length, bool) or not isinstance(length, int):
        raise _refused("canvas_length", "Input should be a valid integer")
    if length <= 0:
        raise _refused("canvas_length", "Input should be greater than 0")
    return length


def _refused(field: str, objection: str) -> StartupStops:
    return config_refuses(Stage.OPTIONS, InvalidValue(option="--diffusion-config"), of_field(field, objection))
