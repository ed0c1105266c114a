"""Environment variables that name kernels for routed experts where `--moe-backend` does not.

Sources: `select_fp8_moe_backend`, `select_nvfp4_moe_backend` and `select_unquantized_moe_backend` under
`model_executor/layers/fused_moe/oracle`. Left out: variables for MXFP4, and those that only take kernels away.
"""

from __future__ import annotations

from dataclasses import dataclass

from kvplan.history import checks
from kvplan.launch.values import Launch

_FLASHINFER = {
    "fp8": ("VLLM_USE_FLASHINFER_MOE_FP8", ("flashinfer_trtllm", "flashinfer_cutlass"), "FP8"),
    "nvfp4": (
        "VLLM_USE_FLASHINFER_MOE_FP4",
        ("flashinfer_trtllm", "flashinfer_cutlass", "flashinfer_cutedsl"),
        "NVFP4",
    ),
    "unquantized": ("VLLM_USE_FLASHINFER_MOE_FP16", ("flashinfer_trtllm", "flashinfer_cutlass"), "unquantized"),
}
"""By kind of weights: the variable, the backends that it tries in turn, and how the complaint calls them."""

_FLASHINFER_NAMES = {
    "throughput": "flashinfer_cutlass",
    "latency": "flashinfer_trtllm",
    "masked_gemm": "flashinfer_cutedsl",
}


@dataclass(frozen=True, slots=True)
class Wish:
    """Backends of which one must run, by their names in `--moe-backend`, and the variable that wants them."""

    variable: str
    names: tuple[str, ...]
    nothing: str | None = None
    """vLLM's complaint where none runs; None where it is the backend's own."""


def wished(launch: Launch, kind: str) -> Wish | None:
    """What the environment wants for weights of this kind, None where it leaves the choice to vLLM."""
    release = launch.release
    if kind in _FLASHINFER and release.has(checks.FLASHINFER_EXPERTS_BY_ENVIRONMENT):
        known = kind != "unquantized" or release.has(checks.UNQUANTIZED_EXPERTS_ASK_KERNELS)
        variable, names, title = _FLASHINFER[kind]
        if known and _on(launch, variable):
            return _flashinfer(launch, variable, names, title)
    if kind == "fp8" and deep_gemm(launch) is True:
        return Wish("VLLM_USE_DEEP_GEMM", ("deep_gemm",))
    must = kind == "fp8" or (kind == "unquantized" and release.has(checks.AITER_EXPERTS_ARE_A_MUST))
    if must and _on(launch, "VLLM_ROCM_USE_AITER") and _on(launch, "VLLM_ROCM_USE_AITER_MOE", default=True):
        return Wish("VLLM_ROCM_USE_AITER", ("aiter",))
    return None


def deep_gemm(launch: Launch) -> bool | None:
    """Whether the environment wants DeepGEMM for experts; None where it says nothing."""
    names = ("VLLM_USE_DEEP_GEMM", "VLLM_MOE_USE_DEEP_GEMM")
    if not any(name in launch.environment for name in names):
        return None
    return all(_on(launch, name, default=True) for name in names)


def _flashinfer(launch: Launch, variable: str, names: tuple[str, ...], title: str) -> Wish:
    told = _FLASHINFER_NAMES.get(launch.environment.get("VLLM_FLASHINFER_MOE_BACKEND", ""))
    if told == "flashinfer_trtllm" and launch.hardware.capability[0] != 10:
        told = "flashinfer_cutlass"
    if told is not None:
        return Wish(variable, (told,))
    nothing = f"Found {variable}=1, but no FlashInfer {title} MoE backend supports the configuration."
    return Wish(variable, names, nothing)


def _on(launch: Launch, variable: str, *, default: bool = False) -> bool:
    value = launch.environment.get(variable)
    return default if value is None else value.lower() not in ("", "0", "false")
