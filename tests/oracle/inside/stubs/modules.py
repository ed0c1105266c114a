"""Modules that are compiled, need a GPU to be imported, or come only with one of vLLM's two images.

A finder in front of all others gives a placeholder for those that the pretended image has, and hides those that it
lacks. Sources that the release ships itself are preferred to placeholders.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.oracle.inside.stubs.anything import StubModule
from tests.oracle.inside.stubs.noted import STUBBED

Fill = Callable[[Any], None]
"""Gives a placeholder module the attributes that must say something."""

NVML = "vllm.third_party.pynvml"

IN_EVERY_IMAGE = (
    "vllm._C",
    "vllm._C_stable_libtorch",
    "vllm._moe_C",
    "vllm._moe_C_stable_libtorch",
    "vllm.cumem_allocator",
    "vllm.fs_io_C",
    "vllm.spinloop",
    "vllm.third_party.triton_kernels",
    "triton_kernels",
    "tilelang",
    "tvm_ffi",
    "tvm",
    "fastsafetensors",
    "torchcodec",
    "cv2",
    "torchaudio",
    "xgrammar",
    "llguidance",
    "outlines_core",
)
CUDA_ONLY = (
    "vllm._flashmla_C",
    "vllm._flashmla_extension_C",
    "vllm._deepselect_C",
    "vllm._flashkda_C",
    "vllm.vllm_flash_attn._vllm_fa2_C",
    "vllm.vllm_flash_attn._vllm_fa3_C",
    "vllm.vllm_flash_attn.cute",
    "vllm.vllm_flash_attn.layers",
    "vllm.vllm_flash_attn.ops",
    "vllm.third_party.flashmla.flash_mla_interface",
    "vllm.third_party.deep_gemm",
    "deep_gemm",
    "vllm.third_party.fmha_sm100",
    "vllm.third_party.tml_fa4",
    "flashinfer",
    "flashinfer_cubin",
    "flashinfer_jit_cache",
    "cutlass",
    "quack",
    "tokenspeed_mla",
    "humming",
    "nvtx",
    "instanttensor",
    "cuda",
    "cudnn",
    "PyNvVideoCodec",
)
ROCM_ONLY = ("vllm._rocm_C", "amdsmi", "aiter", "flash_attn", "mori", "quark", "conch")

HIDDEN_FROM_ROCM = (*CUDA_ONLY, "vllm.vllm_flash_attn", "vllm.third_party.flashmla", "pynvml")
"""What cannot be imported in the ROCm image, even where sources of it lie in the release."""

NEVER_REAL = frozenset({"vllm.third_party.flashmla.flash_mla_interface"})
"""Placeholders even where the release ships the source, which needs the compiled part."""


def install(*, rocm: bool, fills: Mapping[str, Fill]) -> None:
    """Put the finder in front. `fills` is by module name."""
    hidden = HIDDEN_FROM_ROCM if rocm else ()
    stubs = (*IN_EVERY_IMAGE, *CUDA_ONLY, *(ROCM_ONLY if rocm else ()))

    class PresentFinder(importlib.machinery.PathFinder):
        """The usual finder, blind to what the image lacks."""

        @classmethod
        def find_spec(
            cls, fullname: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
        ) -> importlib.machinery.ModuleSpec | None:
            return None if _within(fullname, hidden) else super().find_spec(fullname, path, target)

    finders: list[Any] = [
        PresentFinder if finder is importlib.machinery.PathFinder else finder for finder in sys.meta_path
    ]
    sys.meta_path[:] = [_StubFinder(stubs, hidden, fills), *finders]


def _within(name: str, packages: Sequence[str]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


class _StubFinder(importlib.abc.MetaPathFinder):
    def __init__(self, stubs: Sequence[str], hidden: Sequence[str], fills: Mapping[str, Fill]) -> None:
        self.stubs, self.hidden, self.fills = stubs, hidden, fills

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if _within(fullname, self.hidden):
            return None
        loader = _StubLoader(self.fills.get(fullname))
        if fullname == NVML:
            return importlib.machinery.ModuleSpec(fullname, loader, is_package=False)
        if not _within(fullname, self.stubs) or self._has_source(fullname, path):
            return None
        return importlib.machinery.ModuleSpec(fullname, loader, origin="placeholder", is_package=True)

    def _has_source(self, fullname: str, path: Sequence[str] | None) -> bool:
        if not fullname.startswith("vllm.") or not path or fullname in NEVER_REAL:
            return False
        return importlib.machinery.PathFinder.find_spec(fullname, path) is not None


class _StubLoader(importlib.abc.Loader):
    def __init__(self, fill: Fill | None) -> None:
        self.fill = fill

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        module = StubModule(spec.name)
        module.__path__ = []
        module.__dict__["__version__"] = "99.0.0"
        module.__file__ = f"/placeholder/{spec.name.replace('.', '/')}/__init__.py"
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        STUBBED.setdefault(module.__name__, "stub module (python placeholder)")
        if self.fill is not None:
            self.fill(module)
