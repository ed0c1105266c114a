"""What a model architecture's own config hook does to a launch (`model_executor/models/config.py`).

Hooks go by architecture name: another name for the same model has none. Families say which of theirs have one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kvplan.checkpoint.values import ConfigDict
from kvplan.releases import Behaviour, Release


@dataclass(frozen=True, slots=True)
class HookedDtype:
    """A dtype that a hook chose, and why."""

    dtype: str
    cause: str
    behaviour: Behaviour | None = None
    draft_keeps_auto: bool = False
    """Of a cache dtype: whether a draft that is not the model's own MTP module stays at `auto`."""


CacheDtypeHook = Callable[[str, tuple[int, int], Release], HookedDtype | None]
StateDtypeHook = Callable[[ConfigDict, Release], HookedDtype | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigHook:
    """The hook of one architecture; None for what it leaves alone."""

    cache_dtype: CacheDtypeHook | None = None
    """What it makes of the launch-wide cache dtype, on a GPU of the given compute capability."""
    state_dtype: StateDtypeHook | None = None
    """What it makes of `--mamba-ssm-cache-dtype auto`, from the language model's config."""
    fewer_sequences: int | None = None
    """What it lowers a large number of sequences to, whoever asked for it."""
    mixes_directions: bool = False
    """Whether it keeps FlashInfer back, as the model attends in both directions within a causal batch."""
    masks_recent_output: bool = False
    """Whether it picks a backend that can mask R-SWA, where FlashAttention can from version 4 on."""


def fp8_on_datacenter_blackwell(
    architecture: str, dtype: str, behaviour: Behaviour, *, draft_keeps_auto: bool = False
) -> ConfigHook:
    """The hook of an architecture that stores `dtype` where nobody says otherwise and the GPU's capability is 10.x."""

    def hook(current: str, capability: tuple[int, int], release: Release) -> HookedDtype | None:
        if current != "auto" or capability[0] != 10 or not release.has(behaviour):
            return None
        cause = f"{architecture} uses an fp8 cache by default on compute capability 10.x"
        return HookedDtype(dtype, cause, behaviour, draft_keeps_auto)

    return ConfigHook(cache_dtype=hook)


def declared_dtype(text: ConfigDict, field: str) -> str | None:
    """The dtype that a field of a config names, None where it names none."""
    value = text.get(field)
    return value.removeprefix("torch.") if isinstance(value, str) and value else None
