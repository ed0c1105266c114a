"""Whether the quantisation method exists, agrees with the checkpoint, and runs on this GPU with this model dtype.

Sources: `ModelConfig._verify_quantization` (config/model.py), `VllmConfig._get_quantization_config`
(config/vllm.py) and `get_quant_config` (model_executor/model_loader/weight_utils.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from kvplan.checkpoint.values import Checkpoint
from kvplan.engine.checks import sections
from kvplan.engine.checks.methods import converted, deprecated, known, lookup
from kvplan.engine.failures import (
    ConfigValueRefused,
    QuantisationCapability,
    QuantisationDeprecated,
    QuantisationDtype,
    QuantisationFileMissing,
    QuantisationMismatch,
    QuantisationUnknown,
)
from kvplan.engine.options import given
from kvplan.engine.stop import config_refuses, stop
from kvplan.engine.values import Stage
from kvplan.launch.values import Hardware, Launch
from kvplan.releases import Release

OPTION = "--quantization"

_NEEDS_SECTION = {"torchao": "TorchAOConfig", "compressed-tensors": "CompressedTensorsConfig", "quark": "QuarkConfig"}
"""Methods whose config classes are made of the checkpoint's section only: without one they fail to be made."""


def check_named(checkpoint: Checkpoint) -> None:
    """Raises StartupStops where the checkpoint's section has something else for the name of its method."""
    section = checkpoint.config.get("quantization_config")
    method = section.get("quant_method", "") if isinstance(section, Mapping) else ""
    if not isinstance(method, str):
        raise stop(
            Stage.OPTIONS,
            ConfigValueRefused(field="quant_method", value=method),
            f"'{type(method).__name__}' object has no attribute 'lower'",
            exception="AttributeError",
        )


def verify(checkpoint: Checkpoint, launch: Launch) -> str | None:
    """The quantisation method of the run, None for unquantised weights. Raises StartupStops where vLLM refuses it."""
    release = launch.release
    asked = launch.get("quantization")
    asked = str(asked).lower() if asked else None
    method = asked
    if checkpoint.quantization is not None:
        declared = str(checkpoint.quantization.get("quant_method", "")) or None
        capability = launch.hardware.capability
        method = converted(
            checkpoint.quantization,
            asked,
            checkpoint.model_type,
            capability,
            release,
            batch_invariant=given.variable(launch, "VLLM_BATCH_INVARIANT"),
        )
        if method is None:
            if asked is not None and asked != declared:
                raise _mismatch(declared, asked)
            method = declared
    if method is None:
        return None
    if lookup(method, release) is None:
        raise config_refuses(
            Stage.OPTIONS,
            QuantisationUnknown(method=method, asked=asked, accepted=known(release)),
            f"Unknown quantization method: {method}. Must be one of {list(known(release))}.",
        )
    if deprecated(method, release) and not launch.get("allow_deprecated_quantization"):
        raise config_refuses(
            Stage.OPTIONS,
            QuantisationDeprecated(method=method),
            "('The quantization method %s is deprecated and will be removed in future versions of vLLM. To bypass, "
            f"set `--allow-deprecated-quantization`.', '{method}')",
        )
    return method


def _mismatch(declared: str | None, asked: str) -> Exception:
    return config_refuses(
        Stage.OPTIONS,
        QuantisationMismatch(declared=declared, asked=asked),
        f"Quantization method specified in the model config ({declared}) does not match the quantization method "
        f"specified in the `quantization` argument ({asked}).",
    )


def check_support(
    checkpoint: Checkpoint, method_name: str | None, model_dtype: str, hardware: Hardware, release: Release
) -> None:
    """Raises StartupStops where the method cannot run on this GPU, with this model dtype, or lacks its files."""
    method = None if method_name is None else lookup(method_name, release)
    if method is None:
        return
    if checkpoint.quantization is None and method.name in _NEEDS_SECTION:
        raise stop(
            Stage.OPTIONS,
            QuantisationFileMissing(method=method.name, files=method.files),
            f"{_NEEDS_SECTION[method.name]}.__init__() missing required positional arguments",
            exception="TypeError",
        )
    if checkpoint.quantization is None and method.files and not _has_file(checkpoint, method.files):
        raise config_refuses(
            Stage.OPTIONS,
            QuantisationFileMissing(method=method.name, files=method.files),
            f"Cannot find the config file for {method.name}",
        )
    if _lacks_layers(checkpoint, method.name) and not _has_file(checkpoint, method.files):
        raise config_refuses(
            Stage.OPTIONS,
            QuantisationFileMissing(method=method.name, files=method.files),
            f"Cannot find the config file for {method.name}",
        )
    if checkpoint.quantization is not None:
        sections.check(checkpoint.quantization, method.name, release)
    capability = hardware.capability[0] * 10 + hardware.capability[1]
    if capability < method.capability:
        raise config_refuses(
            Stage.OPTIONS,
            QuantisationCapability(method=method.name, needed=method.capability),
            f"The quantization method {method.name} is not supported for the current GPU. Minimum capability: "
            f"{method.capability}. Current capability: {capability}.",
        )
    if model_dtype not in method.dtypes:
        listed = ", ".join(f"torch.{dtype}" for dtype in method.dtypes)
        raise config_refuses(
            Stage.OPTIONS,
            QuantisationDtype(method=method.name, dtype=model_dtype, accepted=method.dtypes),
            f"torch.{model_dtype} is not supported for quantization method {method.name}. Supported dtypes: [{listed}]",
        )


def _lacks_layers(checkpoint: Checkpoint, method: str) -> bool:
    """Mixed precision without a rule for each layer at the top of its section: vLLM goes on to look for a file."""
    section = checkpoint.quantization
    return method == "modelopt_mixed" and section is not None and "quantized_layers" not in section


def _has_file(checkpoint: Checkpoint, names: tuple[str, ...]) -> bool:
    """Whether one of the files stands beside the config; vLLM looks at the ends of file names."""
    if checkpoint.path is None:
        return False
    try:
        beside = list(Path(checkpoint.path).parent.glob("*.json"))
    except OSError:
        return False
    return any(path.name.endswith(names) for path in beside)
