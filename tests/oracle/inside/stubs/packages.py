"""Versions of distributions that are pretended to be installed."""

from __future__ import annotations

import importlib.metadata

from tests.oracle.inside.stubs.flashinfer import PINNED
from tests.oracle.inside.stubs.noted import STUBBED

FLASHINFER = ("flashinfer-python", "flashinfer-cubin", "flashinfer-jit-cache")
CUDA = {
    **dict.fromkeys(FLASHINFER, "0.7.2"),
    "nvidia-cutlass-dsl": "4.8.0",
    "quack-kernels": "0.6.5",
    "tilelang": "0.1.12",
    "apache-tvm-ffi": "0.1.11",
    "tokenspeed-mla": "2.0.3",
    "humming-kernels": "0.1.19",
    "nvidia-cudnn-frontend": "1.31.0",
    "torchcodec": "0.14.0",
    "torchaudio": "2.11.0",
    "opencv-python-headless": "4.13.0",
    "fastsafetensors": "0.3.3",
    "nvtx": "0.2.15",
}
ROCM = {"flash_attn": "2.8.3", "flash-attn": "2.8.3", "amd-aiter": "0.1.21"}


def install(release: str, *, rocm: bool) -> None:
    """Make `importlib.metadata` answer for them."""
    pretended = {**CUDA, **(ROCM if rocm else {})}
    if release in PINNED:
        pretended.update(dict.fromkeys(FLASHINFER, PINNED[release]))
    real_version = importlib.metadata.version

    def version(distribution_name: str) -> str:
        try:
            return real_version(distribution_name)
        except importlib.metadata.PackageNotFoundError:
            if distribution_name not in pretended:
                raise
            STUBBED[f"metadata:{distribution_name}"] = pretended[distribution_name]
            return pretended[distribution_name]

    importlib.metadata.version = version
    if rocm:
        real_packages = importlib.metadata.packages_distributions
        importlib.metadata.packages_distributions = lambda: {
            **real_packages(),
            "flash_attn": ["flash_attn"],
            "aiter": ["amd-aiter"],
        }
