"""The format in which a model's config is read. Source: `get_config` (transformers_utils/config.py)."""

from __future__ import annotations

from kvplan.checkpoint.mistral import PARAMS_FILE
from kvplan.checkpoint.values import Checkpoint, Source
from kvplan.engine.failures import InvalidValue
from kvplan.engine.options import given
from kvplan.engine.stop import config_refuses
from kvplan.engine.values import Stage
from kvplan.launch.values import Launch

_OPTION = "--config-format"
_KNOWN = ("auto", "hf", "mistral")


def check(checkpoint: Checkpoint, launch: Launch) -> None:
    """Raises StartupStops for a format that vLLM does not know, or whose file a directory has not.

    Whether a Hub repository or an entry of the catalog has the file is not held.
    """
    asked = given.value(launch, "config_format")
    if asked is None:
        return
    if asked not in _KNOWN:
        raise config_refuses(
            Stage.OPTIONS,
            InvalidValue(option=_OPTION, value=asked, accepted=_KNOWN),
            f"Unknown config format `{asked}`.",
        )
    if asked == "mistral" and checkpoint.source is Source.DIRECTORY and not checkpoint.file.endswith(PARAMS_FILE):
        raise config_refuses(
            Stage.OPTIONS,
            InvalidValue(option=_OPTION, value=asked),
            f"Failed to load mistral 'params.json' config for model {launch.model}. Please check if the model is a "
            "mistral-format model and if the config file exists.",
        )
