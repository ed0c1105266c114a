"""The pretended GPUs."""

from __future__ import annotations

import pytest

from kvplan.launch.hardware import parse_gpu
from tests.oracle.gpus import GPUS


@pytest.mark.parametrize(
    ("name", "capability"),
    [
        ("h200", (9, 0)),
        ("b300", (10, 3)),
        ("mi250x", (9, 0)),
        ("mi300x", (9, 4)),
        ("mi355x", (9, 5)),
        ("rx7900xtx", (11, 0)),
        ("r9700", (12, 0)),
    ],
)
def test_capability(name: str, capability: tuple[int, int]) -> None:
    assert GPUS[name].capability == capability


@pytest.mark.parametrize("name", [name for name, gpu in GPUS.items() if not gpu.is_amd])
def test_kvplan_sees_the_same_gpu(name: str) -> None:
    hardware = parse_gpu(name)
    assert (hardware.capability, hardware.device_name) == (GPUS[name].capability, GPUS[name].device_name)


def test_memory_is_in_bytes() -> None:
    assert GPUS["t4"].memory_bytes == 16_106_127_360
