"""torch.cuda and torch.accelerator of a CPU build, answering for the pretended GPU."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch._C

from tests.oracle.gpus import Gpu
from tests.oracle.inside.stubs.anything import Stub
from tests.oracle.inside.stubs.noted import STUBBED

CUDA_VERSION = "13.0"
HIP_VERSION = "7.2"


class Stream(Stub):
    """A stream, or an event."""

    def __init__(self, *args: object, **keywords: object) -> None:
        super().__init__("stream")


class DeviceContext:
    """`with torch.cuda.device(0):`"""

    def __init__(self, *args: object, **keywords: object) -> None:
        pass

    def __enter__(self) -> DeviceContext:
        return self

    def __exit__(self, *error: object) -> None:
        pass


def properties(gpu: Gpu) -> types.SimpleNamespace:
    """What `torch.cuda.get_device_properties` tells; shared memory in bytes."""
    wide = gpu.capability[0] in (9, 10)
    block, optin, multiprocessor = 49152, 232448 if wide else 101376, 233472 if wide else 102400
    if gpu.is_amd:
        block = optin = multiprocessor = (160 if gpu.gfx == "gfx950" else 64) << 10
    instinct = gpu.gfx.startswith("gfx9")
    return types.SimpleNamespace(
        name=gpu.device_name,
        major=gpu.capability[0],
        minor=gpu.capability[1],
        total_memory=gpu.memory_bytes,
        multi_processor_count=gpu.processors,
        is_integrated=0,
        is_multi_gpu_board=0,
        warp_size=64 if instinct else 32,
        regs_per_multiprocessor=65536,
        max_threads_per_multi_processor=2048,
        L2_cache_size=60 << 20,
        shared_memory_per_block=block,
        shared_memory_per_block_optin=optin,
        shared_memory_per_multiprocessor=multiprocessor,
        gcnArchName=f"{gpu.gfx}:sramecc+:xnack-" if instinct else gpu.gfx,
        uuid="GPU-0000",
    )


def install(gpu: Gpu, count: int) -> None:
    """Replace what vLLM calls. Imports of torch that look at the build come before this."""
    for name in ("_cuda_getCurrentRawStream", "_cuda_getDeviceCount", "_cuda_setDevice"):
        if not hasattr(torch._C, name):
            setattr(torch._C, name, _always(0))
    torch.version.cuda, torch.version.hip = (None, HIP_VERSION) if gpu.is_amd else (CUDA_VERSION, None)
    _replace(torch.cuda, _answers(gpu, count))
    if hasattr(torch, "accelerator"):
        _replace(
            torch.accelerator,
            {
                "device_count": _always(count),
                "is_available": _always(True),
                "current_device_index": _always(0),
                "set_device_index": _always(None),
                "current_accelerator": lambda *args, **keywords: torch.device("cuda"),
                "synchronize": _always(None),
                "empty_cache": _always(None),
                "current_stream": lambda *args, **keywords: Stream(),
                "device_index": DeviceContext,
            },
        )
        torch.cuda.device = DeviceContext
    STUBBED["torch.cuda"] = "facade (CPU torch): capability/properties/streams faked, cuda tensors redirected to meta"


def _answers(gpu: Gpu, count: int) -> dict[str, Any]:
    told = properties(gpu)
    does_nothing = ("set_device", "synchronize", "empty_cache", "manual_seed_all", "manual_seed", "_lazy_init", "init")
    is_zero = ("current_device", "max_memory_allocated", "memory_allocated", "memory_reserved")
    return {
        **{name: _always(None) for name in (*does_nothing, "reset_peak_memory_stats")},
        **{name: _always(0) for name in is_zero},
        **{name: _always(True) for name in ("is_available", "is_initialized", "_is_compiled")},
        **{name: _always(count) for name in ("device_count", "_device_count_nvml", "_device_count_amdsmi")},
        "Stream": Stream,
        "Event": Stream,
        "current_stream": lambda *args, **keywords: Stream(),
        "default_stream": lambda *args, **keywords: Stream(),
        "get_device_capability": lambda device=None: gpu.capability,
        "get_device_name": lambda device=None: gpu.device_name,
        "get_device_properties": lambda device=None: told,
        "mem_get_info": _always((gpu.memory_bytes, gpu.memory_bytes)),
        "is_bf16_supported": _always(gpu.capability[0] >= 8),
        "is_current_stream_capturing": _always(False),
        "graph_pool_handle": _always((0, 0)),
        "stream": _no_context,
    }


def _replace(place: Any, attributes: dict[str, Any]) -> None:
    for name, value in attributes.items():
        setattr(place, name, value)


def _always(value: Any) -> Callable[..., Any]:
    """A new function: Dynamo lets none have two names in torch."""
    return lambda *args, **keywords: value


@contextlib.contextmanager
def _no_context(*args: object, **keywords: object) -> Iterator[None]:
    yield
