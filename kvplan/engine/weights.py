"""Whether the GPU is new enough for the way the weights are quantised (`VllmConfig._get_quantization_config`)."""

from __future__ import annotations

from kvplan.checkpoint.values import Checkpoint
from kvplan.engine import modelopt
from kvplan.engine.backends.facts import Dated, always
from kvplan.engine.stop import stop
from kvplan.engine.values import Stage
from kvplan.launch.values import Hardware
from kvplan.releases import KNOWN, Release, resolve

_MINIMUM: dict[str, Dated[int]] = {
    "modelopt": always(89, ("0.27.1", 80)),
    "modelopt_fp4": always(75),
    "modelopt_mixed": always(89, ("0.24.0", 75)),
    "modelopt_mxfp8": always(100, ("0.20.2", 80)),
    "fp8": always(75),
    "fbgemm_fp8": always(80),
    "mxfp4": always(80),
    "compressed-tensors": always(70),
}
"""Quantisation method -> the least compute capability, 80 meaning 8.0."""


def check(checkpoint: Checkpoint, hardware: Hardware, release: Release) -> None:
    """Raise StartupStops where the GPU is too old for the checkpoint's quantisation."""
    method = _method(checkpoint, release)
    least = _MINIMUM.get(method) if method is not None else None
    if method is None or least is None:
        return
    major, minor = hardware.capability
    have, wanted = 10 * major + minor, least.at(release)
    if have >= wanted:
        return
    later = next((name for name in KNOWN if have >= least.at(resolve(name)) and release.within(None, name)), None)
    raise stop(
        Stage.OPTIONS,
        "checkpoint_quantisation",
        f"The quantization method {method} is not supported for the current GPU. Minimum capability: {wanted}. "
        f"Current capability: {have}.",
        facts={"method": method, "served_since": later, "minimum_capability": wanted, "capability": have},
    )


def _method(checkpoint: Checkpoint, release: Release) -> str | None:
    """The quantisation method as vLLM settles it: ModelOpt's follows from the algorithm."""
    found = checkpoint.quantization
    if found is None:
        return None
    return modelopt.method(checkpoint, release) or str(found.get("quant_method", ""))
