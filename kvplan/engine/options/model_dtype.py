"""The dtype of the model's weights and activations (`--dtype`). Source: `config/model.py`."""

from __future__ import annotations

from kvplan.checkpoint.values import Checkpoint
from kvplan.engine.failures import InvalidValue
from kvplan.engine.models.by_name import NO_FLOAT16
from kvplan.engine.models.geometry import ModelGeometry
from kvplan.engine.options import given
from kvplan.engine.stop import config_refuses
from kvplan.engine.values import Stage
from kvplan.launch.values import Launch

_DTYPE_ALIASES = {"half": "float16", "float": "float32"}


def resolve(checkpoint: Checkpoint, launch: Launch, geometry: ModelGeometry) -> str:
    """`--dtype` resolved: `auto` takes the checkpoint's, float32 becomes the platform's preferred half type."""
    asked = str(given.value(launch, "dtype")).lower()
    no_half = checkpoint.model_type in NO_FLOAT16
    if asked != "auto":
        asked = _DTYPE_ALIASES.get(asked, asked)
        if asked == "float16" and no_half:
            raise config_refuses(
                Stage.OPTIONS,
                InvalidValue(option="--dtype", value=asked, accepted=("bfloat16", "float32")),
                f"The model type {checkpoint.model_type!r} does not support float16.",
            )
        return asked
    bf16 = launch.hardware.capability >= (8, 0)
    supported = [d for d in (["bfloat16"] if bf16 else []) + ["float16", "float32"] if d != "float16" or not no_half]
    preferred = "float16" if geometry.runner_type == "pooling" and "float16" in supported else supported[0]
    told = declared(checkpoint)
    if told == "float32":
        told = preferred
    return told if told in supported else preferred


def cause(launch: Launch, checkpoint: Checkpoint) -> str:
    """Why the model's dtype is what it is, for people."""
    asked = str(given.value(launch, "dtype")).lower()
    if asked != "auto":
        return f"--dtype {asked}"
    return f"the checkpoint declares {declared(checkpoint)}; compute capability {launch.hardware.capability_text}"


def declared(checkpoint: Checkpoint) -> str:
    """The dtype the checkpoint declares; vLLM takes float32 where it declares none."""
    found = written(checkpoint)
    return "float32" if found is None else found[1].removeprefix("torch.")


def written(checkpoint: Checkpoint) -> tuple[str, str] | None:
    """The field that declares a dtype, and the name there; None where there is none."""
    for source in (checkpoint.config, checkpoint.text_config):
        for key in ("dtype", "torch_dtype"):
            value = source.get(key)
            if isinstance(value, str) and value:
                return key, value
    return None
