"""Triton's real wheel, with a CUDA or HIP driver that is pretended to be active and never launches anything."""

from __future__ import annotations

import importlib
import types
from collections.abc import Callable
from typing import Any

import torch

from tests.oracle.gpus import Gpu
from tests.oracle.inside.stubs import cuda
from tests.oracle.inside.stubs.anything import Stub
from tests.oracle.inside.stubs.noted import STUBBED


class Driver(Stub):
    """Triton's driver of the pretended GPU."""

    def __init__(self, gpu: Gpu) -> None:
        super().__init__("triton.driver")
        object.__setattr__(self, "_gpu", gpu)

    def get_current_target(self) -> types.SimpleNamespace:
        """Backend, architecture and warp size."""
        gpu: Any = self._gpu
        major, minor = gpu.capability
        return types.SimpleNamespace(
            backend="hip" if gpu.is_amd else "cuda",
            arch=gpu.gfx if gpu.is_amd else major * 10 + minor,
            warp_size=cuda.properties(gpu).warp_size,
        )

    def get_current_device(self) -> int:
        """The first."""
        return 0

    def get_device_interface(self) -> Any:
        """torch's module."""
        return torch.cuda

    def get_active_torch_device(self) -> Any:
        """torch's name of the first."""
        return torch.device("cuda", 0)

    def get_benchmarker(self) -> Callable[..., float]:
        """Nothing takes time."""
        return lambda *args, **keywords: 0.0

    @property
    def utils(self) -> types.SimpleNamespace:
        """What Triton asks of the device."""
        told = cuda.properties(self._gpu)  # type: ignore[arg-type]
        return types.SimpleNamespace(
            get_device_properties=lambda device: {
                "max_shared_mem": told.shared_memory_per_block_optin,
                "multiprocessor_count": told.multi_processor_count,
                "warpSize": told.warp_size,
                "sm_clock_rate": 1,
                "mem_clock_rate": 1,
                "mem_bus_width": 1,
                "max_num_regs": 65536,
            }
        )


def install(gpu: Gpu) -> None:
    """Make the driver active."""
    from triton.backends import backends

    wanted = "amd" if gpu.is_amd else "nvidia"
    for name, backend in backends.items():
        backend.driver.is_active = staticmethod(lambda name=name: name == wanted)
    STUBBED["triton"] = f"real triton wheel; {'HIP' if gpu.is_amd else 'CUDA'} driver pretended active (never launched)"
    try:
        importlib.import_module("triton.runtime.driver").driver.set_active(Driver(gpu))
    except Exception as error:
        STUBBED["triton.driver"] = f"set_active failed {error!r}"
