"""`torch.ops` of the compiled extensions: they exist, and the few that answer a question answer by the GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch._ops import _OpNamespace

from tests.oracle.inside.stubs.anything import Stub
from tests.oracle.inside.stubs.noted import STUBBED

IN_EVERY_IMAGE = frozenset(
    {"_C", "_moe_C", "_C_cache_ops", "_C_cuda_utils", "_C_custom_ar", "_C_stable_libtorch", "_rocm_C"}
)
CUDA_ONLY = frozenset(
    {
        "_vllm_fa2_C",
        "_vllm_fa3_C",
        "_flashmla_C",
        "_flashmla_extension_C",
        "_qutlass_C",
        "_sparse_flashmla_C",
        "deep_select",
        "_flashkda_C",
    }
)
"""Namespaces of operators."""

NOT_ON_ROCM = (
    "cutlass_",
    "marlin_",
    "gptq_marlin",
    "awq_marlin",
    "machete_",
    "allspark_",
    "scaled_fp4",
    "silu_and_mul_nvfp4",
    "hadacore_",
    "minimax_allreduce",
    "dsv3_fused_a_gemm",
    "fp32_router_gemm",
    "permute_cols",
    "moe_wna16_marlin",
    "fused_kda_",
    "fused_gdn_decode_post_conv_mtp",
    "kimi_k3_attn_res",
    "create_onednn",
    "dynamic_4bit",
    "activation_lut",
    "init_shm_manager",
)
"""How the names of operators begin that are compiled for CUDA or CPU only, and that vLLM looks for by name."""

BY_CAPABILITY: Mapping[str, Callable[[Any], Any]] = {
    "cutlass_scaled_mm_supports_fp8": lambda capability: capability >= 89,
    "cutlass_scaled_mm_supports_block_fp8": lambda capability: capability >= 90,
    "cutlass_scaled_mm_supports_fp4": lambda capability: capability >= 100,
    "cutlass_sparse_scaled_mm_supported": lambda capability: capability >= 90,
    "cutlass_group_gemm_supported": lambda capability: 90 <= capability < 120,
    "cutlass_moe_mm_supports_fp4": lambda capability: capability >= 100,
    "get_cuda_view_from_cpu_tensor": lambda tensor: tensor,
}
"""Operators whose value vLLM uses; the capability is an integer such as 90."""


def install(*, rocm: bool) -> None:
    """Make them exist, and let registrations of their fakes pass."""
    spaces = IN_EVERY_IMAGE if rocm else IN_EVERY_IMAGE | CUDA_ONLY
    real = _OpNamespace.__getattr__

    def attribute(self: Any, name: str) -> Any:
        try:
            return real(self, name)
        except AttributeError:
            missing = rocm and (name.startswith(NOT_ON_ROCM) or "cpu" in name.split("_"))
            if missing or self.name not in spaces or name.startswith("__"):
                raise
            if name in BY_CAPABILITY:
                STUBBED[f"torch.ops.{self.name}.{name}"] = "answered from capability"
                return BY_CAPABILITY[name]
            STUBBED.setdefault(f"torch.ops.{self.name}.*", "ops pretended to exist")
            return Stub(f"torch.ops.{self.name}.{name}")

    _OpNamespace.__getattr__ = attribute
    torch.library.register_fake = _forgiving(torch.library.register_fake, spaces)
    if hasattr(torch.library, "impl_abstract"):
        torch.library.impl_abstract = _forgiving(torch.library.impl_abstract, spaces)


def _forgiving(register: Callable[..., Any], spaces: frozenset[str]) -> Callable[..., Any]:
    """`register`, passing over operators that do not exist here."""

    def registered(operator: Any, function: Any = None, /, **keywords: Any) -> Any:
        if function is not None:
            try:
                return register(operator, function, **keywords)
            except Exception:
                return function
        if isinstance(operator, str) and operator.split("::")[0] in spaces:
            return lambda function: function
        return register(operator, **keywords)

    return registered
