"""Whether decode steps are captured as whole CUDA graphs, by what the launch says."""

from __future__ import annotations

import pytest

from kvplan.engine.pool.graphs import captures_decode_steps
from tests.asking import launched


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
    assert captures_decode_steps(launched(["vllm", "serve", "Qwen/Qwen3.5-35B-A3B", *flags])) is captured
