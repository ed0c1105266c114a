"""The GPUs that can be pretended: what NVML or AMD SMI say of them, as far as vLLM asks.

Read on both sides, by kvplan's own interpreter and by the one that runs vLLM: nothing but the standard library here.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Gpu:
    """One kind of GPU."""

    device_name: str
    """The name as NVML or AMD SMI tell it; vLLM looks for parts of it."""
    memory_mib: int
    """Total memory in MiB as nvidia-smi or amd-smi show it."""
    processors: int
    """Streaming multiprocessors, or compute units."""
    compute: tuple[int, int] | None = None
    """An NVIDIA GPU's compute capability."""
    gfx: str = ""
    """An AMD GPU's architecture (`gfx942`)."""
    pci_device: str = ""
    """An AMD GPU's PCI device id."""

    @property
    def is_amd(self) -> bool:
        """Whether ROCm runs it."""
        return bool(self.gfx)

    @property
    def memory_bytes(self) -> int:
        """Total memory in bytes."""
        return self.memory_mib << 20

    @property
    def capability(self) -> tuple[int, int]:
        """(major, minor) as vLLM sees it; HIP takes an AMD GPU's from the digits of its architecture."""
        if self.compute is not None:
            return self.compute
        digits = "".join(letter for letter in self.gfx.removeprefix("gfx") if letter.isdigit())
        return (int(digits[:2]), int(digits[2])) if len(digits) == 4 else (int(digits[0]), int(digits[1]))


GPUS: dict[str, Gpu] = {
    "v100": Gpu("Tesla V100-SXM2-32GB", 32768, 80, (7, 0)),
    "t4": Gpu("Tesla T4", 15360, 40, (7, 5)),
    "a100": Gpu("NVIDIA A100-SXM4-80GB", 81920, 108, (8, 0)),
    "a100-40": Gpu("NVIDIA A100-SXM4-40GB", 40960, 108, (8, 0)),
    "a10": Gpu("NVIDIA A10", 23028, 72, (8, 6)),
    "rtx3090": Gpu("NVIDIA GeForce RTX 3090", 24576, 82, (8, 6)),
    "l4": Gpu("NVIDIA L4", 23034, 58, (8, 9)),
    "l40s": Gpu("NVIDIA L40S", 46068, 142, (8, 9)),
    "rtx4090": Gpu("NVIDIA GeForce RTX 4090", 24564, 128, (8, 9)),
    "h100": Gpu("NVIDIA H100 80GB HBM3", 81559, 132, (9, 0)),
    "h200": Gpu("NVIDIA H200", 143771, 132, (9, 0)),
    "h20": Gpu("NVIDIA H20", 97871, 78, (9, 0)),
    "gh200": Gpu("NVIDIA GH200 480GB", 97871, 132, (9, 0)),
    "b200": Gpu("NVIDIA B200", 183359, 148, (10, 0)),
    "gb200": Gpu("NVIDIA GB200", 189471, 152, (10, 0)),
    "b300": Gpu("NVIDIA B300 SXM6 AC", 275040, 148, (10, 3)),
    "rtx5090": Gpu("NVIDIA GeForce RTX 5090", 32607, 170, (12, 0)),
    "rtxpro6000": Gpu("NVIDIA RTX PRO 6000 Blackwell Server Edition", 97887, 188, (12, 0)),
    "gb10": Gpu("NVIDIA GB10", 122570, 48, (12, 1)),
    # one of the two dies of the card
    "mi250x": Gpu("AMD Instinct MI250X", 65520, 110, gfx="gfx90a", pci_device="0x7408"),
    "mi300x": Gpu("AMD Instinct MI300X", 196592, 304, gfx="gfx942", pci_device="0x74a1"),
    "mi325x": Gpu("AMD Instinct MI325X", 262128, 304, gfx="gfx942", pci_device="0x74a5"),
    "mi350x": Gpu("AMD Instinct MI350X", 294896, 256, gfx="gfx950", pci_device="0x75a0"),
    "mi355x": Gpu("AMD Instinct MI355X", 294896, 256, gfx="gfx950", pci_device="0x75a3"),
    "rx7900xtx": Gpu("AMD Radeon RX 7900 XTX", 24560, 96, gfx="gfx1100", pci_device="0x744c"),
    "r9700": Gpu("AMD Radeon AI PRO R9700", 32624, 64, gfx="gfx1201", pci_device="0x7551"),
}
"""By the names that golden records use."""
