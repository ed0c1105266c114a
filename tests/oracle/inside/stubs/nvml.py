"""What NVML says: the pretended GPUs, all alike and linked; on ROCm that there is no driver."""

from __future__ import annotations

import types
from typing import Any

from tests.oracle.gpus import Gpu
from tests.oracle.inside.stubs.modules import NVML, Fill
from tests.oracle.inside.stubs.noted import STUBBED

DRIVER = "580.82.07"
CUDA_DRIVER = 13000


class NVMLError(Exception):
    """What NVML's functions raise."""


def fill(gpu: Gpu, count: int) -> Fill:
    """The attributes of NVML's module for `count` GPUs."""

    def init(*args: object, **keywords: object) -> None:
        if gpu.is_amd:
            raise NVMLError("no NVIDIA driver")

    def give(module: Any) -> None:
        total = gpu.memory_bytes
        module.NVMLError = NVMLError
        module.nvmlInit = init
        module.nvmlShutdown = lambda *args, **keywords: None
        module.nvmlDeviceGetCount = lambda: count
        module.nvmlDeviceGetHandleByIndex = lambda index: ("h", index)
        module.nvmlDeviceGetHandleByUUID = lambda uuid: ("h", 0)
        module.nvmlDeviceGetIndex = lambda handle: handle[1]
        module.nvmlDeviceGetCudaComputeCapability = lambda handle: gpu.capability
        module.nvmlDeviceGetName = lambda handle: gpu.device_name
        module.nvmlDeviceGetUUID = lambda handle: f"GPU-0000-{handle[1]}"
        module.nvmlDeviceGetMemoryInfo = lambda handle: types.SimpleNamespace(total=total, free=total, used=0)
        module.nvmlDeviceGetP2PStatus = lambda one, other, index: 0
        module.NVML_P2P_STATUS_OK = 0
        module.NVML_P2P_CAPS_INDEX_NVLINK = 2
        module.NVML_P2P_CAPS_INDEX_READ = 0
        module.nvmlSystemGetDriverVersion = lambda: DRIVER
        module.nvmlSystemGetCudaDriverVersion = lambda: CUDA_DRIVER
        STUBBED[NVML] = (
            "NVML that finds no driver"
            if gpu.is_amd
            else f"fake NVML: cc={gpu.capability} name={gpu.device_name} total={gpu.memory_mib}MiB count={count}"
        )

    return give
