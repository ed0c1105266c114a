"""Whether vLLM captures whole decode steps as CUDA graphs (`CUDAGraphMode`, config/compilation.py)."""

from __future__ import annotations

from collections.abc import Mapping

from kvplan.launch.values import Launch

_WITHOUT_FULL_GRAPHS = frozenset({"NONE", "PIECEWISE"})
"""Values of `cudagraph_mode` that capture no whole step."""
_LEVELS_WITHOUT_FULL_GRAPHS = frozenset({"0", "1"})
"""Optimisation levels with such a mode as their default."""


def captures_decode_steps(launch: Launch) -> bool:
    """Whether full CUDA graphs are on, as they are unless the launch says otherwise."""
    if launch.get("enforce_eager"):
        return False
    compilation = launch.get("compilation_config")
    mode = compilation.get("cudagraph_mode") if isinstance(compilation, Mapping) else None
    if mode is not None:
        return str(mode).rpartition(".")[2].upper() not in _WITHOUT_FULL_GRAPHS
    return str(launch.get("optimization_level")) not in _LEVELS_WITHOUT_FULL_GRAPHS
