"""Where tensors go: what asks for CUDA lands on the meta device, which has shapes and no memory."""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from tests.oracle.inside.stubs.anything import Stub

SMALL = 1 << 22
"""Elements up to which a tensor is really made in `SmallOnCpu`."""
_SIZED = frozenset({"empty", "zeros", "ones", "full", "rand", "randn", "empty_strided", "randint", "eye"})
_VALUED = frozenset({"tensor", "arange", "linspace", "as_tensor", "logspace"})
_size_first = frozenset({"full", "empty_strided"})
_on_cpu = {"now": False}


def _placed(device: Any) -> Any:
    """The device that a tensor for `device` is put on."""
    if isinstance(device, torch.device):
        asks = device.type == "cuda"
    elif isinstance(device, str):
        asks = device.startswith("cuda")
    else:
        asks = isinstance(device, int) and not isinstance(device, bool)
    return torch.device("cpu" if _on_cpu["now"] else "meta") if asks else device


class CudaToMeta(TorchFunctionMode):
    """Redirects explicit CUDA devices, and takes placeholders out of arguments."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), keywords: Any = None) -> Any:
        keywords = dict(keywords or {})
        if keywords.get("device") is not None:
            keywords["device"] = _placed(keywords["device"])
        name = getattr(function, "__name__", "")
        if name == "cuda":
            return args[0] if _on_cpu["now"] else args[0].to("meta")
        keywords.pop("pin_memory", None)
        if function is torch.device and args and isinstance(args[0], int):
            return torch.device("cuda", args[0])
        args = tuple(1 if isinstance(value, Stub) else value for value in args)
        keywords = {key: value for key, value in keywords.items() if not isinstance(value, Stub)}
        if name == "pin_memory":
            return args[0]
        if name == "to":
            args = tuple(_placed(value) if isinstance(value, torch.device | str) else value for value in args)
        return function(*args, **keywords)


class SmallOnCpu(TorchFunctionMode):
    """In place of the meta device: small tensors are real ones, for models that look at values while they are built."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), keywords: Any = None) -> Any:
        keywords = dict(keywords or {})
        name = getattr(function, "__name__", "")
        _on_cpu["now"] = True
        if keywords.get("device") is None:
            if name in _SIZED:
                keywords["device"] = "cpu" if _elements(name, args, keywords) <= SMALL else "meta"
            elif name in _VALUED:
                keywords["device"] = "cpu"
        return function(*args, **keywords)

    def __exit__(self, *error: Any) -> Any:
        _on_cpu["now"] = False
        return super().__exit__(*error)


def _elements(name: str, args: Any, keywords: Any) -> int:
    """How many elements the new tensor has; 0 where its size is not made of numbers."""
    size = keywords.get("size", args)
    if size and isinstance(size[0], list | tuple | torch.Size) and (len(size) == 1 or name in _size_first):
        size = size[0]
    count = 1
    try:
        for side in size:
            count *= int(side)
    except (TypeError, ValueError, RuntimeError):
        return 0
    return count
