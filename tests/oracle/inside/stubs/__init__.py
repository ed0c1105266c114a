"""The pretended machine: GPUs, drivers, compiled extensions and optional packages, as vLLM's own code asks for them.

`install` must run before vLLM is imported, once a process. What was pretended is in `noted.STUBBED`.
"""

from __future__ import annotations

import importlib

from tests.oracle.gpus import Gpu
from tests.oracle.inside.stubs import amdsmi, flashinfer, host, modules, nvml, packages
from tests.oracle.inside.stubs.noted import STUBBED

COUNT = 64
"""GPUs of the machine: more than any launch asks for."""

BEFORE_THE_FACADE = (
    "torch._dynamo",
    "torch._inductor",
    "torch._inductor.compile_fx",
    "torch.distributed",
    "torch.utils.cpp_extension",
    "torch.export",
)
"""Parts of torch that look for CUDA while they are imported."""


def install(gpu: Gpu, release: str) -> None:
    """Pretend a machine with `COUNT` of `gpu`, on which the image of vLLM `release` runs."""
    fills = {modules.NVML: nvml.fill(gpu, COUNT), **flashinfer.fills(release)}
    if gpu.is_amd:
        fills["amdsmi"] = amdsmi.fill(gpu, COUNT)
        STUBBED["aiter"] = "found, any attribute (kernels never run)"
    modules.install(rocm=gpu.is_amd, fills=fills)
    host.install(rocm=gpu.is_amd)
    packages.install(release, rocm=gpu.is_amd)
    for name in BEFORE_THE_FACADE:
        importlib.import_module(name)

    from tests.oracle.inside.stubs import cuda, drivers, operators, vision

    cuda.install(gpu, COUNT)
    vision.install()
    drivers.install(gpu)
    operators.install(rocm=gpu.is_amd)
