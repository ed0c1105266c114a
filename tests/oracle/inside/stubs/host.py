"""The machine around the GPUs: its memory, and one file that only the wheel has."""

from __future__ import annotations

import os
from typing import Any

from tests.oracle.inside.stubs.noted import STUBBED

MEMORY_BYTES = 2 << 40
FLASH_ATTENTION_4 = "vllm_flash_attn/cute/interface.py"


def install(*, rocm: bool) -> None:
    """Pretend a server's memory (releases with `--swap-space` compare with it) and, on NVIDIA, FlashAttention 4."""
    import psutil

    real_memory = psutil.virtual_memory
    psutil.virtual_memory = lambda: real_memory()._replace(
        total=MEMORY_BYTES, available=MEMORY_BYTES, free=MEMORY_BYTES
    )
    STUBBED["psutil.virtual_memory"] = "2 TiB of host memory"
    if rocm:
        return
    real_exists = os.path.exists

    def exists(path: Any) -> bool:
        if isinstance(path, str | os.PathLike) and str(path).replace("\\", "/").endswith(FLASH_ATTENTION_4):
            STUBBED[FLASH_ATTENTION_4] = "pretended to exist (FA4 available, as in the wheel)"
            return True
        return real_exists(path)

    os.path.exists = exists
