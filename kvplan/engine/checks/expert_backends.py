"""`--moe-backend`: which names a release knows for weights of one kind, and which kernels stand behind them.

Sources: the modules under `model_executor/layers/fused_moe/oracle`: `map_…_backend` and the parts of `select_…` that
follow the operator's choice. Each kind of weights has a module and a list of names of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kvplan.engine.checks.expert_kernels import NO_GPU, Demand, objection
from kvplan.history import checks
from kvplan.releases import Release, Span


@dataclass(frozen=True, slots=True)
class Choice(Span):
    """One name of `--moe-backend` for one kind of weights, in the releases of its span.

    `shown` is the backend as messages call it. `kernels` are tried in turn; without any it is for other platforms or
    wants a package that vLLM's image lacks. `input` is what the backend makes of activations where it decides that
    itself.
    """

    name: str
    shown: str
    kernels: tuple[str, ...] = ()
    input: str | None = None


_HUMMING = ("HummingExperts",)
_MOE_EP = ("FlashInferMoeEpExperts",)

_UNQUANTIZED = (
    Choice("triton", "TRITON", ("TritonExperts",)),
    Choice("batched_triton", "BATCHED_TRITON", ("BatchedTritonExperts",), since="0.27.1"),
    Choice("flashinfer_trtllm", "FlashInfer TRTLLM", ("TrtLlmBf16Experts",)),
    Choice("flashinfer_cutlass", "FlashInfer CUTLASS", ("FlashInferExperts",)),
    Choice("aiter", "ROCm AITER"),
)
_FP8 = (
    Choice("triton", "TRITON", ("TritonExperts",)),
    Choice("deep_gemm", "DEEPGEMM", ("TritonOrDeepGemmExperts",)),
    Choice("cutlass", "VLLM_CUTLASS", ("TritonOrCutlassExperts",)),
    Choice("flashinfer_trtllm", "FLASHINFER_TRTLLM", ("TrtLlmFp8Experts",)),
    Choice("flashinfer_cutlass", "FLASHINFER_CUTLASS", ("FlashInferExperts",)),
    Choice("marlin", "MARLIN", ("MarlinExperts",)),
    Choice("humming", "HUMMING", _HUMMING, since="0.25.1"),
    Choice("aiter", "AITER"),
    Choice("hpc", "HPC", since="0.25.1"),
)
_MXFP8 = (
    Choice("flashinfer_trtllm", "FLASHINFER_TRTLLM", ("TrtLlmFp8Experts",)),
    Choice("deep_gemm", "DEEPGEMM", ("DeepGemmExperts",), since="0.24.0"),
    Choice("marlin", "MARLIN", ("MarlinExperts",), since="0.20.2"),
    Choice("xpu", "XPU", since="0.22.1"),
    Choice("aiter", "AITER_MXFP8", since="0.25.1"),
    Choice("triton", "TRITON_MXFP8", since="0.25.1"),
    Choice("humming", "HUMMING", _HUMMING, since="0.25.1"),
)
_NVFP4 = (
    Choice("b12x", "B12X", since="0.29.0"),
    Choice("cutlass", "VLLM_CUTLASS", ("CutlassExpertsFp4",)),
    Choice("flashinfer_trtllm", "FLASHINFER_TRTLLM", ("TrtLlmNvFp4Experts",)),
    Choice("flashinfer_cutlass", "FLASHINFER_CUTLASS", ("FlashInferExperts",)),
    Choice("flashinfer_cutedsl", "FLASHINFER_CUTEDSL", ("FlashInferCuteDSLExperts",)),
    Choice("flashinfer_moe_ep_cutedsl", "FLASHINFER_MOE_EP_CUTEDSL", _MOE_EP, since="0.32.0"),
    Choice("flashinfer_b12x", "FLASHINFER_B12X", ("FlashInferB12xExperts",), since="0.22.1"),
    Choice("marlin", "MARLIN", ("MarlinExperts",)),
    Choice("humming", "HUMMING", _HUMMING, since="0.25.1"),
    Choice("emulation", "EMULATION", ("Nvfp4QuantizationEmulationTritonExperts",), since="0.20.2"),
)
_TRTLLM_BF16 = Choice(
    "flashinfer_trtllm", "FLASHINFER_TRTLLM_MXFP4_BF16", ("TrtLlmMxfp4Experts",), "none", since="0.19.1"
)
_TRTLLM_MXFP8 = Choice(
    "flashinfer_trtllm", "FLASHINFER_TRTLLM_MXFP4_MXFP8", ("TrtLlmMxfp4Experts",), "mxfp8", since="0.22.1"
)
_CUTLASS_BF16 = Choice(
    "flashinfer_cutlass", "FLASHINFER_CUTLASS_MXFP4_BF16", ("FlashInferExperts",), "none", since="0.19.1"
)
_CUTLASS_MXFP8 = Choice(
    "flashinfer_cutlass", "FLASHINFER_CUTLASS_MXFP4_MXFP8", ("FlashInferExperts",), "mxfp8", since="0.22.1"
)
_MXFP4 = (
    Choice("b12x", "B12X_MXFP4_MXFP8", input="mxfp8", since="0.29.0"),
    Choice("b12x", "B12X_MXFP4_BF16", input="none", since="0.29.0"),
    Choice("deep_gemm", "DEEPGEMM_MXFP4", ("DeepGemmFP4Experts",), "fp8_group", since="0.20.2"),
    _TRTLLM_BF16,
    _TRTLLM_MXFP8,
    Choice("flashinfer_trtllm_afp8", "FLASHINFER_TRTLLM_MXFP4_MXFP8", ("TrtLlmMxfp4Experts",), "mxfp8"),
    _CUTLASS_BF16,
    _CUTLASS_MXFP8,
    Choice("flashinfer_cutlass_afp8", "FLASHINFER_CUTLASS_MXFP4_MXFP8", ("FlashInferExperts",), "mxfp8"),
    Choice("flashinfer_moe_ep_cutedsl", "FLASHINFER_MOE_EP_CUTEDSL", _MOE_EP, "none", since="0.32.0"),
    Choice("flashinfer_moe_ep_mega_deep_gemm", "FLASHINFER_MOE_EP_DEEP_GEMM", _MOE_EP, "none", since="0.32.0"),
    Choice("triton", "TRITON", ("OAITritonExperts",), "none"),
    Choice("triton_unfused", "TRITON_UNFUSED", ("UnfusedOAITritonExperts",), "none", since="0.20.2"),
    Choice("humming", "HUMMING", _HUMMING, "none", since="0.21.0"),
    Choice("marlin", "MARLIN", ("MarlinExperts",), "none"),
    Choice("ck", "CK", until="0.19.1"),
    Choice("aiter", "AITER", since="0.20.2", until="0.20.2"),
    Choice("aiter", "AITER_MXFP4_BF16", input="none", since="0.21.0"),
    Choice("aiter", "AITER_TRITON_MXFP4_BF16", input="none", since="0.30.0"),
    Choice("aiter", "AITER_MXFP4_FP8", input="fp8_static", since="0.22.1"),
    Choice("aiter", "AITER_MXFP4_MXFP4", input="mxfp4", since="0.22.1"),
    Choice("aiter", "AITER_TRITON_MXFP4_MXFP4", input="mxfp4", since="0.33.0"),
    Choice("aiter_triton_mxfp4_bf16", "AITER_TRITON_MXFP4_BF16", input="none", since="0.30.0"),
    Choice("aiter_mxfp4_fp8", "AITER_MXFP4_FP8", input="fp8_static", since="0.21.0"),
    Choice("aiter_triton_mxfp4_mxfp4", "AITER_TRITON_MXFP4_MXFP4", input="mxfp4", since="0.33.0"),
    Choice("aiter_mxfp4_mxfp4", "AITER_MXFP4_MXFP4", input="mxfp4", since="0.22.1"),
    Choice("xpu", "XPU", input="none"),
    Choice("cpu", "CPU", input="none", since="0.22.1"),
    Choice("emulation", "EMULATION", ("OCP_MXQuantizationEmulationTritonExperts",), "none", since="0.20.2"),
)
_INTEGERS = (
    Choice("triton", "TRITON", ("TritonWNA16Experts",), since="0.27.1"),
    Choice("marlin", "MARLIN", ("MarlinExperts",)),
    Choice("humming", "HUMMING", _HUMMING),
    Choice("flashinfer_trtllm", "FLASHINFER_TRTLLM"),
    Choice("emulation", "EMULATION", ("Int4EmulationTritonExperts",), since="0.26.0"),
    Choice("rdna3", "RDNA3", since="0.30.0"),
)
_INT8 = (
    Choice("triton", "TRITON", ("TritonExperts",)),
    Choice("humming", "HUMMING", _HUMMING, since="0.25.1"),
)


_CLAMPING = {
    "flashinfer_trtllm": Span(since="0.22.1"),
    "flashinfer_cutlass": Span(since="0.24.0"),
    "marlin": Span(since="0.24.0"),
    "cutlass": Span(since="0.28.0"),
    "emulation": Span(since="0.28.0"),
    "flashinfer_cutedsl": Span(since="0.28.0"),
    "humming": Span(since="0.28.0"),
    "b12x": Span(since="0.29.0"),
    "flashinfer_moe_ep_cutedsl": Span(since="0.32.0"),
}
"""NVFP4 backends that limit activations as some models want it, each with the releases in which it does."""


@dataclass(frozen=True, slots=True)
class Weights(Span):
    """A kind of weights with a selection of its own, in the releases of its span."""

    title: str
    """As the complaint about an unknown name calls it."""
    unsupported: str
    """As the complaint about a backend begins; `{}` is the backend."""
    choices: tuple[Choice, ...]
    unread: tuple[tuple[str, Span], ...] = ()
    """Names that leave the choice to vLLM, each with the releases in which they do."""


KINDS: dict[str, Weights] = {
    "unquantized": Weights(
        "unquantized",
        "Unquantized MoE backend {}",
        _UNQUANTIZED,
        unread=(("humming", Span(since="0.25.1")), ("marlin", Span(since="0.33.0"))),
        since="0.17.1",
    ),
    "fp8": Weights("FP8", "FP8 MoE backend {}", _FP8, since="0.17.1"),
    "mxfp8": Weights("MXFP8", "No supported MXFP8 expert class for {}", _MXFP8, since="0.19.1"),
    "nvfp4": Weights("NvFP4", "NvFp4 MoE backend '{}'", _NVFP4, since="0.17.1"),
    "mxfp4": Weights("MXFP4", "Mxfp4 MoE backend '{}'", _MXFP4, since="0.19.1"),
    "int8": Weights("Int8", "Int8 MoE backend {}", _INT8, since="0.20.2"),
    "integers": Weights("WNA16", "WNA16 MoE backend '{}'", _INTEGERS, since="0.25.1"),
}


@dataclass(frozen=True, slots=True)
class Refused:
    """Why vLLM refuses a backend: its message, and whether the name itself is unknown."""

    message: str
    accepted: tuple[str, ...] = ()
    """The names that these weights know, where the given one is not among them."""
    reason: str | None = None


def refusal(name: str, kind: str, demand: Demand, release: Release, *, every_input: bool = False) -> Refused | None:
    """vLLM's complaint about `--moe-backend name` for weights of this kind, None where it starts.

    `every_input` tries all variants of a name, where the model leaves open how its activations are stored; else those
    that leave them as they are come first and the rest only where there are none of them.
    """
    weights = KINDS[kind]
    if any(name == unread and release.within(span) for unread, span in weights.unread):
        return None
    known = [choice for choice in weights.choices if release.within(choice)]
    mine = [choice for choice in known if choice.name == name]
    if not mine:
        accepted = tuple(dict.fromkeys(choice.name for choice in known))
        text = f"moe_backend='{name}' is not supported for {weights.title} MoE. Expected one of {list(accepted)}."
        return Refused(text, accepted)
    if kind == "unquantized" and not release.has(checks.UNQUANTIZED_EXPERTS_ASK_KERNELS):
        return _unavailable(name, demand, release)
    if kind == "nvfp4" and demand.clamp is not None and release.has(checks.EXPERT_CLAMPS_CHECKED):
        span = _CLAMPING.get(name)
        if span is None or not release.within(span):
            limit = f"Model sets swiglu_limit={demand.clamp}, but the explicitly requested moe_backend={name!r} does"
            return Refused(f"{limit} not apply the SwiGLU clamp.", reason="the model's limit of activations")
    plain = [choice for choice in mine if choice.input == "none"]
    refused = None
    for choice in mine if every_input or not plain else plain:
        refused = _kernels(choice, weights, demand, release)
        if refused is None:
            return None
    return refused


def _unavailable(name: str, demand: Demand, release: Release) -> Refused | None:
    """Before kernels told themselves what they take: three backends for unquantised weights had conditions."""
    if name == "flashinfer_trtllm":
        available, shown = objection("TrtLlmBf16Experts", demand, release) is None, "FlashInfer TRTLLM"
    elif name == "flashinfer_cutlass":
        available = demand.expert_parallel and not demand.data_parallel and demand.capability >= (9, 0)
        shown = "FlashInfer CUTLASS"
    else:
        available, shown = name != "aiter", "ROCm AITer"
    if available:
        return None
    return Refused(f"{shown} MoE backend is not available for this configuration.", reason="this configuration")


def _kernels(choice: Choice, weights: Weights, demand: Demand, release: Release) -> Refused | None:
    wanted = demand if choice.input is None else replace(demand, input=choice.input)
    reasons = [objection(kernel, wanted, release) for kernel in choice.kernels] or [NO_GPU]
    if None in reasons:
        return None
    begins = weights.unsupported.format(choice.shown)
    reason = reasons[-1]
    if weights.title == "MXFP8":
        return Refused(f"{begins}: {reason}", reason=reason)
    return Refused(f"{begins} does not support the deployment configuration since {reason}.", reason=reason)
