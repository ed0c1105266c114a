"""What AMD SMI says: the pretended GPUs, all alike and linked by XGMI."""

from __future__ import annotations

import types
from typing import Any

from tests.oracle.gpus import Gpu
from tests.oracle.inside.stubs.modules import Fill
from tests.oracle.inside.stubs.noted import STUBBED

XGMI = 2


class AmdSmiException(Exception):  # noqa: N818 (AMD's name)
    """What AMD SMI's functions raise."""


def fill(gpu: Gpu, count: int) -> Fill:
    """The attributes of AMD SMI's module for `count` GPUs."""
    asic = {
        "market_name": gpu.device_name,
        "device_id": gpu.pci_device,
        "vendor_id": "0x1002",
        "target_graphics_version": gpu.gfx,
    }

    def give(module: Any) -> None:
        module.AmdSmiException = AmdSmiException
        module.AmdSmiMemoryType = types.SimpleNamespace(VRAM=0, VIS_VRAM=1, GTT=2)
        module.amdsmi_init = module.amdsmi_shut_down = lambda *args, **keywords: None
        module.amdsmi_get_processor_handles = lambda: list(range(count))
        module.amdsmi_get_gpu_asic_info = lambda handle: dict(asic)
        module.amdsmi_get_gpu_device_uuid = lambda handle: f"00ff{gpu.pci_device[2:]}-0000-1000-8000-{handle:012x}"
        module.amdsmi_get_gpu_memory_total = lambda handle, kind: gpu.memory_bytes
        module.amdsmi_topo_get_link_type = lambda one, other: {"hops": 1, "type": XGMI}
        module.amdsmi_topo_get_numa_node_number = lambda handle: 0
        module.amdsmi_topo_get_p2p_status = lambda one, other: {"type": XGMI}
        STUBBED["amdsmi"] = (
            f"fake AMD SMI: {gpu.gfx} {gpu.device_name} device_id={gpu.pci_device} "
            f"total={gpu.memory_mib}MiB count={count}"
        )

    return give
