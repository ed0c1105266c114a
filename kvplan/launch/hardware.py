"""The GPUs kvplan knows by name, and how `--gpu` is read.

Memory is the total that the CUDA driver reports (nvidia-smi's MiB), capability NVIDIA's compute capability, and
the device name the one NVML gives: vLLM's defaults for batched tokens and sequences look at both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

from kvplan.errors import InputError
from kvplan.launch.values import Hardware

MIB = 1024 * 1024
MAX_COUNT = 65_536


@dataclass(frozen=True, slots=True)
class Gpu:
    """One row of the table: short name, capability, total memory in MiB, NVML name, other spellings."""

    name: str
    capability: tuple[int, int]
    memory_mib: int
    device_name: str
    spellings: tuple[str, ...] = ()


GPUS: tuple[Gpu, ...] = (
    Gpu("v100", (7, 0), 32768, "Tesla V100-SXM2-32GB", ("v100-32", "v100-sxm3-32gb", "v100-pcie-32gb")),
    Gpu("v100-16", (7, 0), 16384, "Tesla V100-SXM2-16GB", ("v100-pcie-16gb",)),
    Gpu("titan-rtx", (7, 5), 24576, "NVIDIA TITAN RTX"),
    Gpu("t4", (7, 5), 15360, "Tesla T4"),
    Gpu("rtx8000", (7, 5), 49152, "Quadro RTX 8000"),
    Gpu("rtx2080ti", (7, 5), 11264, "NVIDIA GeForce RTX 2080 Ti"),
    Gpu("a100", (8, 0), 81920, "NVIDIA A100-SXM4-80GB", ("a100-80", "a100-pcie-80gb", "a100-80gb-pcie")),
    Gpu("a100-40", (8, 0), 40960, "NVIDIA A100-SXM4-40GB", ("a100-pcie-40gb", "a100-40gb-pcie")),
    Gpu("a800", (8, 0), 81920, "NVIDIA A800-SXM4-80GB", ("a800-80", "a800-pcie-80gb", "a800-80gb-pcie")),
    Gpu("a30", (8, 0), 24576, "NVIDIA A30"),
    Gpu("a10", (8, 6), 23028, "NVIDIA A10"),
    Gpu("a10g", (8, 6), 23028, "NVIDIA A10G"),
    Gpu("a40", (8, 6), 46068, "NVIDIA A40"),
    Gpu("a16", (8, 6), 15356, "NVIDIA A16"),
    Gpu("a4000", (8, 6), 16376, "NVIDIA RTX A4000", ("rtxa4000",)),
    Gpu("a5000", (8, 6), 24564, "NVIDIA RTX A5000", ("rtxa5000",)),
    Gpu("a6000", (8, 6), 49140, "NVIDIA RTX A6000", ("rtxa6000",)),
    Gpu("rtx3060", (8, 6), 12288, "NVIDIA GeForce RTX 3060"),
    Gpu("rtx3080", (8, 6), 10240, "NVIDIA GeForce RTX 3080"),
    Gpu("rtx3090", (8, 6), 24576, "NVIDIA GeForce RTX 3090"),
    Gpu("orin", (8, 7), 62840, "Orin", ("agx-orin", "jetson-orin", "jetson-agx-orin")),
    Gpu("l4", (8, 9), 23034, "NVIDIA L4"),
    Gpu("l20", (8, 9), 46068, "NVIDIA L20"),
    Gpu("l40", (8, 9), 46068, "NVIDIA L40"),
    Gpu("l40s", (8, 9), 46068, "NVIDIA L40S"),
    Gpu("rtx4070", (8, 9), 12282, "NVIDIA GeForce RTX 4070"),
    Gpu("rtx4080", (8, 9), 16376, "NVIDIA GeForce RTX 4080"),
    Gpu("rtx4090", (8, 9), 24564, "NVIDIA GeForce RTX 4090"),
    Gpu("rtx6000ada", (8, 9), 49140, "NVIDIA RTX 6000 Ada Generation", ("6000ada", "ada6000")),
    Gpu("h100", (9, 0), 81559, "NVIDIA H100 80GB HBM3", ("h100-sxm5-80gb", "h100-80")),
    Gpu("h100-pcie", (9, 0), 81559, "NVIDIA H100 PCIe", ("h100-pcie-80gb",)),
    Gpu("h100-nvl", (9, 0), 95830, "NVIDIA H100 NVL", ("h100-94", "h100-nvl-94gb")),
    Gpu("h800", (9, 0), 81559, "NVIDIA H800", ("h800-80",)),
    Gpu("h20", (9, 0), 97871, "NVIDIA H20", ("h20-96",)),
    Gpu("h200", (9, 0), 143771, "NVIDIA H200", ("h200-141", "h200-sxm-141gb")),
    Gpu("h200-nvl", (9, 0), 143771, "NVIDIA H200 NVL"),
    Gpu("gh200", (9, 0), 97871, "NVIDIA GH200 480GB", ("gh200-96",)),
    Gpu("b200", (10, 0), 183359, "NVIDIA B200", ("b200-180", "b200-192")),
    Gpu("gb200", (10, 0), 189471, "NVIDIA GB200"),
    Gpu("b300", (10, 3), 275040, "NVIDIA B300 SXM6 AC"),
    Gpu("gb300", (10, 3), 284208, "NVIDIA GB300"),
    Gpu("thor", (11, 0), 125772, "NVIDIA Thor", ("agx-thor", "jetson-thor", "jetson-agx-thor")),
    Gpu("rtx5070ti", (12, 0), 16303, "NVIDIA GeForce RTX 5070 Ti"),
    Gpu("rtx5080", (12, 0), 16303, "NVIDIA GeForce RTX 5080"),
    Gpu("rtx5090", (12, 0), 32607, "NVIDIA GeForce RTX 5090"),
    Gpu(
        "rtxpro6000",
        (12, 0),
        97887,
        "NVIDIA RTX PRO 6000 Blackwell Server Edition",
        ("pro6000", "rtx6000pro", "rtxpro6000blackwell", "nvidia-rtx-pro-6000-blackwell-workstation-edition"),
    ),
    Gpu("gb10", (12, 1), 122570, "NVIDIA GB10", ("dgx-spark", "spark")),
)

DEFAULT_GPU = "h200"

REPRESENTATIVES: Mapping[tuple[int, int], str] = {
    (7, 0): "v100",
    (7, 5): "t4",
    (8, 0): "a100",
    (8, 6): "a10",
    (8, 7): "orin",
    (8, 9): "l40s",
    (9, 0): "h200",
    (10, 0): "b200",
    (10, 3): "b300",
    (11, 0): "thor",
    (12, 0): "rtxpro6000",
    (12, 1): "gb10",
}
"""The GPU whose memory and name are assumed where only a capability is given."""

_CAPABILITY = re.compile(r"(?:(?:sm|compute)[_-]?)?(\d{1,2})\.(\d)|(?:sm|compute)[_-]?(\d{2,3})[af]?", re.ASCII)


def default_hardware() -> Hardware:
    """The GPU taken where none is named: an H200, marked as assumed."""
    return replace(parse_gpu(DEFAULT_GPU), assumed=True)


def parse_gpu(text: str) -> Hardware:
    """The GPU meant by `text`: a name in a usual spelling or a compute capability, then perhaps `:COUNT`.

    `h200`, `NVIDIA-H100-80GB-HBM3`, `RTX 4090`, `A100-80GB:8`, `sm_90`, `9.0`. A bare capability takes memory and
    name of a common GPU that has it, and is marked as assumed. Raises InputError where nothing fits.
    """
    name, separator, number = text.strip().partition(":")
    count = _count(text, number) if separator else None
    gpu = _by_spelling().get(_fold(name))
    if gpu is not None:
        return _hardware(gpu, count)
    capability = _capability(name)
    if capability is None:
        raise InputError(_unknown(text, name))
    representative = REPRESENTATIVES.get(capability)
    if representative is None:
        known = ", ".join(f"{major}.{minor}" for major, minor in REPRESENTATIVES)
        raise InputError(f"--gpu {text!r}: no supported NVIDIA GPU has this compute capability; known: {known}")
    like = _hardware(_by_spelling()[_fold(representative)], count)
    return replace(like, name=f"sm_{capability[0]}{capability[1]}", assumed=True)


def _hardware(gpu: Gpu, count: int | None) -> Hardware:
    return Hardware(
        name=gpu.name,
        capability=gpu.capability,
        memory_bytes=gpu.memory_mib * MIB,
        device_name=gpu.device_name,
        count=count,
    )


def _count(text: str, number: str) -> int:
    if not (number.isascii() and number.isdigit() and len(number) <= 5 and 1 <= int(number) <= MAX_COUNT):
        raise InputError(f"--gpu {text!r}: after the colon comes the number of GPUs, as in h200:8")
    return int(number)


def _fold(name: str) -> str:
    """A spelling without makers, memory kinds and punctuation: `NVIDIA H100 80GB HBM3` is `h10080`."""
    words = re.split(r"[^a-z0-9]+", name.lower())
    kept = [re.sub(r"^(\d+)(?:gb?|gib)$", r"\1", word) for word in words if word not in _NOISE]
    return "".join(kept)


_NOISE = frozenset(
    [
        "nvidia",
        "tesla",
        "geforce",
        "quadro",
        "graphics",
        "gpu",
        "sxm",
        "sxm2",
        "sxm3",
        "sxm4",
        "sxm5",
        "sxm6",
        "hbm2",
        "hbm2e",
        "hbm3",
        "hbm3e",
        "ac",
    ]
)


_OTHER_MAKERS = re.compile(r"(?:amd|instinct|mi\d|radeon|intel|arc|gaudi|tpu|ascend|cpu)")


@cache
def _by_spelling() -> Mapping[str, Gpu]:
    found: dict[str, Gpu] = {}
    for gpu in GPUS:
        for spelling in (gpu.name, gpu.device_name, *gpu.spellings):
            found.setdefault(_fold(spelling), gpu)
        if gpu.name.startswith("rtx") and gpu.name[3].isdigit():
            found.setdefault(_fold(gpu.name[3:]), gpu)
    return found


def _capability(name: str) -> tuple[int, int] | None:
    match = _CAPABILITY.fullmatch(name.strip().lower())
    if match is None:
        return None
    if match[1] is not None:
        return int(match[1]), int(match[2])
    return int(match[3][:-1]), int(match[3][-1])


def _unknown(text: str, name: str) -> str:
    import difflib

    if _OTHER_MAKERS.match(_fold(name)):
        return f"--gpu {text[:80]!r}: only NVIDIA GPUs are emulated; give one such as h200, or a capability such as 9.0"
    names = [gpu.name for gpu in GPUS]
    near = difflib.get_close_matches(_fold(name)[:40], names, n=3, cutoff=0.6)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(names)}."
    return f"--gpu {text[:80]!r} is not a GPU kvplan knows; {hint} A capability such as sm_90 or 9.0 works too"
