"""Container images: whether one runs vLLM, which release it holds, and for which platform."""

from __future__ import annotations

import re
from dataclasses import dataclass

_VERSION = re.compile(r"(?:^|[^0-9a-z.])v?(0\.\d{1,3}(?:\.\d{1,3})?(?:\.?(?:post|rc)\d+)?)(?=$|[^0-9.])", re.ASCII)
_NO_SERVER = re.compile(
    r"router|proxy|bench|sim(?:ulator)?\b|sidecar|exporter|scheduler|gateway|frontend|production-stack"
)
_OWN_VERSIONS = re.compile(
    r"lmcache|dynamo|vllm-runtime|llm-d|llmd|kserve|kuberay|aibrix|nvcr\.io/nvidia|rhaiis|rhoai|bitnami"
)
"""Makers whose tags count their own releases."""

_PLATFORMS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("ROCm", re.compile(r"rocm|amd\b|mi[23]\d\dx?")),
    ("Intel GPUs", re.compile(r"\bxpu|intel|ipex")),
    ("Gaudi", re.compile(r"gaudi|hpu|habana")),
    ("TPUs", re.compile(r"\btpu")),
    ("CPUs", re.compile(r"\bcpu")),
    ("Ascend", re.compile(r"ascend|\bnpu|cann")),
    ("Neuron", re.compile(r"neuron")),
)


@dataclass(frozen=True, slots=True)
class Image:
    """What an image's name tells."""

    name: str
    serves: bool
    """Whether the image is one of vLLM's server."""
    release: str | None
    reason: str
    """Why `release` is None."""
    platform: str | None
    """The platform, where it is not NVIDIA's."""


def read(name: str) -> Image:
    """`registry/vllm/vllm-openai:v0.25.1@sha256:…` taken apart."""
    lower = name.strip().lower()
    reference = lower.partition("@")[0]
    repository, _, last = reference.rpartition("/")
    base, colon, tag = last.partition(":")
    path = f"{repository}/{base}" if repository else base
    serves = "vllm" in path and _NO_SERVER.search(path) is None
    platform = next((title for title, pattern in _PLATFORMS if pattern.search(f"{path} {tag}")), None)
    if not serves:
        return Image(name, False, None, f"the image {name[:120]} does not say which vLLM it holds", platform)
    version = _VERSION.search(tag) if _OWN_VERSIONS.search(path) is None else None
    if version is not None:
        return Image(name, True, version[1], "", platform)
    if not colon and "@" not in name:
        reason = f"the image {name[:120]} has no tag"
    else:
        reason = f"the image {name[:120]} does not say which vLLM it holds"
    return Image(name, True, None, reason, platform)


_REQUIREMENT = re.compile(
    r"vllm(?:\[[\w, -]*\])?\s*==\s*(\d+(?:\.\d+)*(?:\.?(?:post|rc|dev)\d+)?)(?:\+[\w.]+)?", re.ASCII
)


def required(word: str) -> str | None:
    """The release that a pip requirement pins: `vllm[flashinfer]==0.25.1`."""
    match = _REQUIREMENT.fullmatch(word.strip())
    return None if match is None else match[1]
