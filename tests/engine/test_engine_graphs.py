"""Whether decode steps are captured as whole CUDA graphs, by what the launch says."""

from __future__ import annotations

import pytest

from kvplan.engine.graphs import captures_decode_steps
from kvplan.launch.build import from_command
from kvplan.launch.hardware import parse_gpu
from kvplan.releases import resolve


@pytest.mark.parametrize(
    ("flags", "captured"),
    [
        ((), True),
        (("--enforce-eager",), False),
        (("--optimization-level", "1"), False),
        (("--optimization-level", "3"), True),
        (("-cc", '{"cudagraph_mode": "PIECEWISE"}'), False),
        (("-cc", '{"cudagraph_mode": "FULL_DECODE_ONLY"}', "--optimization-level", "0"), True),
    ],
)
def test_full_graphs_unless_switched_off(flags: tuple[str, ...], captured: bool) -> None:
    launch = from_command(
        ["vllm", "serve", "Qwen/Qwen3.5-35B-A3B", *flags],
        release=resolve("0.33.0"),
        hardware=parse_gpu("h200"),
        available_kv_memory=None,
    )
    assert captures_decode_steps(launch) is captured
