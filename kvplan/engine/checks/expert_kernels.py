"""The kernels for routed experts on NVIDIA GPUs: what each of them takes.

Sources: the static `_supports_…` methods of the classes under `model_executor/layers/fused_moe` (`experts` in newer
releases), which `FusedMoEExperts.is_supported_config` asks in the order of `objection`. Optional packages count as
installed where vLLM's CUDA image has them (FlashInfer, DeepGEMM, Humming) and as absent where it does not (b12x, HPC).
Left out: limits by router (TensorRT-LLM's monolithic kernels), and the batched kernels of all-to-all backends.
"""

from __future__ import annotations

from dataclasses import dataclass

from kvplan.releases import Release, Span

NO_GPU = "kernel does not support current device cuda"
"""What vLLM says of a kernel without code for the GPU."""

GATED = ("silu", "gelu", "gelu_tanh", "swigluoai", "swigluoai_uninterleave", "swiglustep", "situ")
"""Activations that multiply two projections."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What a launch asks of a kernel."""

    capability: tuple[int, int]
    weight: str
    """How weights are stored, by the names of `Kernel.schemes`."""
    input: str
    """How activations are, in the same way."""
    activation: str | None
    """None where kvplan does not know it."""
    expert_parallel: bool = False
    data_parallel: bool = False
    balanced: bool = False
    """Whether experts move between ranks (`--enable-eplb`)."""
    clamp: float | None = None
    """The limit that the model sets to its activations, where it has one."""


@dataclass(frozen=True, slots=True)
class Kernel(Span):
    """What one kernel takes on some GPUs in the releases of its span.

    `gpus` is a least capability (`7.5+`) or major capabilities (`9 10`). `schemes` are pairs of weight and input
    (`fp8_block/fp8_group`, `*` for any input). `activations` is None for all that vLLM knows. `lacks` has what it
    cannot do: `ep`, `dp` and `eplb`; `alone` is a kernel for expert parallelism only. `package` is what it needs and
    vLLM's image lacks.
    """

    name: str
    gpus: str
    schemes: tuple[str, ...]
    activations: tuple[str, ...] | None = None
    lacks: tuple[str, ...] = ()
    package: str | None = None

    def runs_on(self, capability: tuple[int, int]) -> bool:
        """Whether it has code for a GPU of this compute capability."""
        if self.gpus.endswith("+"):
            major, minor = self.gpus.removesuffix("+").split(".")
            return capability >= (int(major), int(minor))
        return str(capability[0]) in self.gpus.split()

    def takes(self, weight: str, given: str) -> bool:
        """Whether it multiplies weights and inputs stored like that."""
        return f"{weight}/{given}" in self.schemes or f"{weight}/*" in self.schemes


_FP8_ANY = ("fp8_block/*", "fp8_channel/*", "fp8_tensor/*")
_INTEGERS = ("int4/*", "int4_32/*", "int8/*")
_TRITON_FP8 = (
    "fp8_block/fp8_group",
    "fp8_channel/fp8_token",
    "fp8_tensor/fp8_dynamic",
    "fp8_tensor/fp8_static",
    "fp8_tensor/fp8_token",
)
_CUTLASS_FP8 = ("fp8_channel/fp8_token", "fp8_tensor/fp8_dynamic", "fp8_tensor/fp8_static")
_CUTE = ("silu", "swigluoai", "swigluoai_uninterleave", "relu2_no_mul")
_HUMMING_FP8 = (
    "fp8_block/fp8_group",
    "fp8_block/fp8_token",
    "fp8_block/none",
    "fp8_channel/fp8_group",
    "fp8_channel/fp8_static",
    "fp8_channel/fp8_token",
    "fp8_channel/none",
    "fp8_tensor/fp8_group",
    "fp8_tensor/fp8_static",
    "fp8_tensor/fp8_token",
    "fp8_tensor/none",
)
_HUMMING = (
    *_HUMMING_FP8,
    "int4/none",
    "int8/none",
    "int8_channel/int8_token",
    "mxfp4/mxfp4",
    "mxfp4/mxfp8",
    "mxfp4/none",
    "mxfp8/mxfp8",
    "mxfp8/none",
    "nvfp4/none",
    "nvfp4/nvfp4",
)
_OPEN_MXFP4 = ("silu", "gelu", "swigluoai", "swigluoai_uninterleave", "swiglustep")
_FLASHINFER_BLACKWELL = ("fp8_tensor/fp8_static", "mxfp4/mxfp8", "none/none", "nvfp4/nvfp4")
_FLASHINFER_HOPPER = ("fp8_block/fp8_group", "fp8_tensor/fp8_static", "mxfp4/none", "none/none")
_FLASHINFER: tuple[tuple[tuple[str, ...], Span], ...] = (
    (("silu", "relu2_no_mul"), Span(until="0.16.0")),
    (("silu", "swigluoai", "relu2_no_mul"), Span(since="0.17.1", until="0.23.0")),
    (("silu", "gelu_tanh", "swigluoai", "relu2_no_mul"), Span(since="0.24.0", until="0.27.1")),
    (("silu", "gelu_tanh", "swigluoai", "swigluoai_uninterleave", "relu2_no_mul"), Span(since="0.28.0")),
)

KERNELS: tuple[Kernel, ...] = (
    Kernel("CutlassExpertsFp4", "10.0+", ("nvfp4/nvfp4",), GATED, ("ep",), until="0.18.1"),
    Kernel("CutlassExpertsFp4", "10.0+", ("nvfp4/nvfp4",), lacks=("ep",), since="0.19.1", until="0.31.0"),
    Kernel("CutlassExpertsFp4", "10.0+", ("nvfp4/nvfp4",), since="0.32.0"),
    Kernel("CutlassExpertsW4A8Fp8", "9 10", ("int4/fp8_token",), GATED, since="0.22.1", until="0.30.0"),
    Kernel("CutlassExpertsW4A8Fp8", "9", ("int4/fp8_token",), GATED, since="0.31.0"),
    Kernel("DeepGemmExperts", "9 10", (), since="0.24.0"),
    Kernel("DeepGemmExperts", "10", ("mxfp8/mxfp8",), ("silu", "swiglustep", "swigluoai_uninterleave"), since="0.24.0"),
    Kernel("DeepGemmExperts", "12", (), since="0.24.0"),
    Kernel("DeepGemmFP4Experts", "10", ("mxfp4/fp8_group",), ("silu", "swiglustep"), since="0.20.2", until="0.23.0"),
    Kernel("DeepGemmFP4Experts", "10.0+", ("mxfp4/fp8_group",), ("silu", "swiglustep"), since="0.24.0", until="0.26.0"),
    Kernel("DeepGemmFP4Experts", "10.0+", ("mxfp4/fp8_group",), ("silu", "swiglustep", "situ"), since="0.27.1"),
    Kernel("FlashInferB12xExperts", "12", ("nvfp4/nvfp4",), ("silu",), since="0.22.1", until="0.24.0"),
    Kernel(
        "FlashInferB12xExperts",
        "12",
        ("nvfp4/none", "nvfp4/nvfp4"),
        ("silu", "gelu_tanh", "relu2_no_mul"),
        ("ep",),
        since="0.25.1",
    ),
    Kernel("FlashInferCuteDSLExperts", "10", ("nvfp4/nvfp4",), ("silu",), until="0.26.0"),
    Kernel(
        "FlashInferCuteDSLExperts", "10", ("nvfp4/nvfp4",), ("silu", "relu2_no_mul"), since="0.27.1", until="0.27.1"
    ),
    Kernel("FlashInferCuteDSLExperts", "10", ("nvfp4/nvfp4",), _CUTE, since="0.28.0", until="0.29.0"),
    Kernel("FlashInferCuteDSLExperts", "10", ("nvfp4/nvfp4",), (*_CUTE, "situ"), since="0.30.0"),
    *(
        Kernel("FlashInferExperts", gpus, schemes, activations, since=span.since, until=span.until)
        for gpus, schemes in (("9", _FLASHINFER_HOPPER), ("10.0+", _FLASHINFER_BLACKWELL))
        for activations, span in _FLASHINFER
    ),
    Kernel("FlashInferMoeEpExperts", "10", ("mxfp4/*", "nvfp4/*"), ("silu",), ("alone",), since="0.32.0"),
    Kernel(
        "HummingExperts",
        "7.5+",
        (*_FP8_ANY, *_INTEGERS, "int8_channel/*", "mxfp4/*", "mxfp8/*", "none/none", "nvfp4/*"),
        since="0.21.0",
        until="0.24.0",
    ),
    Kernel("HummingExperts", "7.5+", _HUMMING, since="0.25.1", until="0.28.0"),
    Kernel("HummingExperts", "7.5+", (*_HUMMING, "int4_32/none", "mxfp4/fp8_group"), since="0.29.0"),
    Kernel("Int4EmulationTritonExperts", "7.0+", ("int4/none", "int4_32/none"), since="0.26.0"),
    Kernel("MarlinExperts", "7.5+", (*_FP8_ANY, "nvfp4/*"), until="0.18.1"),
    Kernel("MarlinExperts", "7.5+", (*_FP8_ANY, "nvfp4/*", "mxfp4/*"), since="0.19.1", until="0.19.1"),
    Kernel("MarlinExperts", "7.5+", (*_FP8_ANY, *_INTEGERS, "mxfp4/*", "mxfp8/*", "nvfp4/*"), since="0.20.2"),
    Kernel("Nvfp4QuantizationEmulationTritonExperts", "7.0+", ("nvfp4/nvfp4",), since="0.20.2"),
    Kernel("OAITritonExperts", "9 10", ("mxfp4/none",), ("swigluoai",), since="0.19.1", until="0.31.0"),
    Kernel("OAITritonExperts", "9.0+", ("mxfp4/none",), ("swigluoai",), since="0.32.0"),
    Kernel(
        "OCP_MXQuantizationEmulationTritonExperts",
        "7.0+",
        (*_FP8_ANY, *_INTEGERS, "int8_channel/*", "mxfp4/*", "mxfp8/*", "none/none", "nvfp4/*"),
        since="0.20.2",
        until="0.27.1",
    ),
    Kernel("OCP_MXQuantizationEmulationTritonExperts", "7.0+", (), package="amd-quark", since="0.28.0"),
    Kernel("TritonExperts", "7.0+", ("none/none",), GATED, until="0.16.0"),
    Kernel("TritonExperts", "7.0+", ("none/none",), since="0.17.1"),
    Kernel("TritonExperts", "7.5+", ("int8_channel/int8_token",), since="0.20.2"),
    Kernel("TritonExperts", "8.9+", _TRITON_FP8),
    Kernel("BatchedTritonExperts", "7.0+", ("none/none",)),
    Kernel("TritonOrCutlassExperts", "9 10", _CUTLASS_FP8, ("silu", "gelu", "gelu_tanh", "swigluoai"), until="0.27.1"),
    Kernel("TritonOrCutlassExperts", "9 10", _CUTLASS_FP8, GATED, since="0.28.0"),
    Kernel("TritonOrDeepGemmExperts", "9 10", ("fp8_block/fp8_group",), ("silu", "swiglustep"), until="0.23.0"),
    Kernel(
        "TritonOrDeepGemmExperts",
        "9.0+",
        ("fp8_block/fp8_group",),
        ("silu", "swigluoai_uninterleave", "swiglustep"),
        since="0.24.0",
    ),
    Kernel("TritonWNA16Experts", "7.0+", _INTEGERS, since="0.27.1"),
    Kernel("TrtLlmBf16Experts", "10", ("none/none",), ("silu",), ("eplb",), since="0.17.1", until="0.23.0"),
    Kernel("TrtLlmBf16Experts", "10", ("none/none",), ("silu", "relu2_no_mul"), ("eplb",), since="0.24.0"),
    Kernel(
        "TrtLlmFp8Experts",
        "10",
        ("fp8_block/fp8_group", "fp8_tensor/fp8_static"),
        ("silu", "relu2_no_mul"),
        ("eplb",),
        since="0.17.1",
        until="0.18.1",
    ),
    Kernel(
        "TrtLlmFp8Experts",
        "10",
        ("fp8_block/fp8_group", "fp8_tensor/fp8_static", "mxfp8/mxfp8"),
        ("silu", "relu2_no_mul"),
        ("eplb",),
        since="0.19.1",
        until="0.24.0",
    ),
    Kernel(
        "TrtLlmFp8Experts",
        "10",
        ("fp8_block/fp8_group", "fp8_tensor/fp8_static", "mxfp8/mxfp8"),
        ("silu", "swigluoai_uninterleave", "relu2_no_mul"),
        ("eplb",),
        since="0.25.1",
    ),
    Kernel("TrtLlmMxfp4Experts", "10", ("mxfp4/mxfp8", "mxfp4/none"), ("swigluoai",), since="0.19.1", until="0.19.1"),
    Kernel(
        "TrtLlmMxfp4Experts", "10", ("mxfp4/mxfp8", "mxfp4/none"), ("silu", "swigluoai"), since="0.20.2", until="0.26.0"
    ),
    Kernel("TrtLlmMxfp4Experts", "10", ("mxfp4/mxfp8", "mxfp4/none"), ("silu", "swigluoai", "situ"), since="0.27.1"),
    Kernel("TrtLlmNvFp4Experts", "10", ("nvfp4/nvfp4",), ("silu", "relu2_no_mul"), since="0.17.1", until="0.20.2"),
    Kernel(
        "TrtLlmNvFp4Experts",
        "10",
        ("nvfp4/nvfp4",),
        ("silu", "gelu", "relu2_no_mul"),
        since="0.21.0",
        until="0.23.0",
    ),
    Kernel(
        "TrtLlmNvFp4Experts",
        "10",
        ("nvfp4/nvfp4",),
        ("silu", "gelu", "gelu_tanh", "relu2_no_mul"),
        since="0.24.0",
        until="0.24.0",
    ),
    Kernel(
        "TrtLlmNvFp4Experts",
        "10",
        ("nvfp4/nvfp4",),
        ("silu", "gelu", "gelu_tanh", "swigluoai_uninterleave", "relu2_no_mul"),
        since="0.25.1",
        until="0.26.0",
    ),
    Kernel(
        "TrtLlmNvFp4Experts",
        "10",
        ("nvfp4/nvfp4",),
        ("silu", "gelu", "gelu_tanh", "swigluoai_uninterleave", "situ", "relu2_no_mul"),
        since="0.27.1",
    ),
    Kernel("UnfusedOAITritonExperts", "9 10", ("mxfp4/none",), _OPEN_MXFP4, since="0.19.1", until="0.31.0"),
    Kernel("UnfusedOAITritonExperts", "9.0+", ("mxfp4/none",), _OPEN_MXFP4, since="0.32.0"),
)


def objection(name: str, demand: Demand, release: Release) -> str | None:
    """Why kernel `name` does not take `demand`, in vLLM's words; None where it does."""
    rows = [row for row in KERNELS if row.name == name and release.within(row)]
    missing = next((row.package for row in rows if row.package is not None), None)
    if missing is not None:
        return f"kernel requires {missing} package"
    mine = [row for row in rows if row.runs_on(demand.capability)]
    if not mine:
        return NO_GPU
    act = demand.activation
    lacking = act is not None and not any(row.activations is None or act in row.activations for row in mine)
    if lacking:
        return f"kernel does not support {f'{act} activation' if act in GATED else 'no act_and_mul MLP layer'}"
    if not any(row.takes(demand.weight, demand.input) for row in mine):
        return f"kernel does not support quantization scheme {demand.weight}x{demand.input}"
    lacks = {lack for row in mine for lack in row.lacks}
    alone = "alone" in lacks and not demand.expert_parallel
    asked = {"ep": demand.expert_parallel, "dp": demand.data_parallel, "eplb": demand.balanced}
    if alone or any(asked[lack] for lack in lacks if lack in asked):
        return "kernel does not support parallel config"
    return None
