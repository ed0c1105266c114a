"""Block sizes by backend: what its kernels address, what it prefers, and whether its pages may be padded.

Facts from `get_supported_kernel_block_sizes`, `get_preferred_block_size` and `supports_block_size` of the classes
in vllm/v1/attention/backends.
"""

from __future__ import annotations

from kvplan.engine.backends.selection import BY_NAME
from kvplan.engine.backends.standard import flash_attn_fixed_page
from kvplan.engine.backends.values import BackendQuery, KernelBlockSize, MultipleOf
from kvplan.history import backends as history
from kvplan.releases import Release


def kernel_block_sizes(
    name: str, release: Release, query: BackendQuery, *, of_layer: bool = False
) -> tuple[KernelBlockSize, ...]:
    """Block sizes (tokens) that the backend's kernels address.

    `of_layer` says that vLLM asks with the layer's spec in hand (0.31 and later, choosing kernel block sizes for a
    group); otherwise the model's head size and the run's cache dtype decide.
    """
    return BY_NAME[name].sizes(query, release, of_layer)


def supports_block_size(name: str, release: Release, query: BackendQuery, size: int) -> bool:
    """Whether the backend takes blocks of `size` tokens: some kernel size must divide it."""
    return BY_NAME[name].takes_block_size(size, query, release)


def preferred_block_size(name: str, release: Release, query: BackendQuery, default: int = 16) -> int:
    """Block size (tokens) the backend asks for when the operator gave none (0.18 and later)."""
    backend = BY_NAME[name]
    if name in ("FLASH_ATTN", "FLASH_ATTN_DIFFKV"):
        page = flash_attn_fixed_page(query, release, of_layer=False)
        if page is not None:
            return max(default, page)
    if backend.preferred_block_size is not None:
        exact = backend.accepts_block_size is not None and backend.takes_block_size(default, query, release)
        return default if exact else backend.preferred_block_size
    if backend.takes_block_size(default, query, release):
        return default
    return min(smallest(size) for size in backend.sizes(query, release))


def smallest(size: KernelBlockSize) -> int:
    """The smallest block (tokens) that a kernel block size stands for."""
    return size.base if isinstance(size, MultipleOf) else size


def indexes_kv_by_block_stride(name: str, release: Release) -> bool:
    """Whether pages of this backend may be padded because kernels step by block stride (0.24 to 0.28)."""
    return release.has(history.KERNELS_STEP_BY_BLOCK_STRIDE) and BY_NAME[name].block_stride.at(release)


def is_ssm(name: str) -> bool:
    """Whether it is a backend of state layers (Mamba, linear attention, short convolution)."""
    return BY_NAME[name].ssm


def is_mla(name: str) -> bool:
    """Whether it is a backend of multi-head latent attention."""
    return BY_NAME[name].mla
