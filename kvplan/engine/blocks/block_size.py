"""Stage 5: the block size of one rank, with every step that changed it.

0.16 and 0.17 settle it while the config is checked; later releases ask the backends once the model is built. From
0.25 on a skip list aligns it. Sources: `CudaPlatform.check_and_update_config` (platforms/cuda.py@0.17.1),
`Platform.update_block_size_for_backend` and `_align_heterogeneous_kv_block_size` (platforms/interface.py).
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace

from kvplan.engine.backends.blocks import (
    is_ssm,
    kernel_block_sizes,
    preferred_block_size,
    smallest,
    supports_block_size,
)
from kvplan.engine.backends.forced import mla_config_time
from kvplan.engine.backends.values import BackendQuery
from kvplan.engine.blocks import state_blocks
from kvplan.engine.blocks.token_bytes import key_value_bytes
from kvplan.engine.config import EngineConfig
from kvplan.engine.failures import AssertionFails, NoSharedBlockSize
from kvplan.engine.layers.built import BuiltLayer
from kvplan.engine.models.geometry import ModelGeometry
from kvplan.engine.parallelism.split import Split
from kvplan.engine.specs.base import ceil_div
from kvplan.engine.stop import stop
from kvplan.engine.values import BlockSizeStep, Stage
from kvplan.history import backends as backend_history
from kvplan.history import blocks
from kvplan.history import state as state_history
from kvplan.releases import Release

DEFAULT_BLOCK_SIZE = 16
"""Tokens a block where neither operator nor backend says otherwise."""


@dataclass(frozen=True, slots=True)
class BlockSize:
    """The block size (tokens) of one rank and what the specs need beside it."""

    block_size: int
    steps: tuple[BlockSizeStep, ...]
    shared_page_bytes: int | None = None
    """The page (bytes) that sliding-window layers are padded to once a skip list aligned the block size."""
    state_block_size: int | None = None
    """Tokens between two states of one request."""
    state_page_padded: int | None = None
    """The page (bytes) that states are padded to."""


def config_time_backend(geometry: ModelGeometry, config: EngineConfig) -> EngineConfig:
    """The config with the MLA backend that 0.16 and 0.17 write into it before any layer exists."""
    settled = mla_config_time(_config_time_query(geometry, config), config.release)
    if settled is None or settled.backend == config.attention_backend:
        return config
    return replace(config, attention_backend=settled.backend)


def _config_time_query(geometry: ModelGeometry, config: EngineConfig) -> BackendQuery:
    latent = next((layer.latent for layer in geometry.layers if layer.latent is not None), None)
    return BackendQuery(
        capability=config.hardware.capability,
        head_size=geometry.head_size,
        dtype=config.model_dtype,
        block_size=config.block_size_at_selection,
        use_mla=geometry.use_mla,
        requested=config.attention_backend,
        latent=latent,
    )


def choose(
    layers: tuple[BuiltLayer, ...],
    geometry: ModelGeometry,
    config: EngineConfig,
    split: Split,
    cache_dtype: str,
    keepless: tuple[tuple[str, BackendQuery], ...] = (),
) -> BlockSize:
    """The block size of the rank that holds `layers`; `cache_dtype` is its launch-wide cache dtype after loading.

    `keepless` are backends of a hybrid model's attention that keeps nothing: they are asked like those of layers.

    Raises StartupStops where the backends share no block size.
    """
    release = config.release
    settled = mla_config_time(_config_time_query(geometry, config), release)
    if settled is not None:
        return BlockSize(
            settled.block_size,
            _config_time_steps(config, settled.block_size),
            state_block_size=config.state.block_size,
            state_page_padded=config.state.page_padded,
        )
    queries = _distinct_backends(layers, cache_dtype)
    if geometry.is_hybrid and not queries:
        queries = [(name, replace(query, run_cache_dtype=cache_dtype)) for name, query in keepless]
    steps: list[BlockSizeStep] = []
    if config.user_block_size is not None:
        size = config.user_block_size
        steps.append(BlockSizeStep(block_size=size, cause="user", text=f"--block-size {size}"))
        raised = config.state.attention_block_size
        if raised is not None and raised != size:
            size = raised
            steps.append(_state_step(size))
    else:
        size = DEFAULT_BLOCK_SIZE
        reset = geometry.is_hybrid and release.has(state_history.HYBRID_BLOCK_RESET)
        if queries and not reset:
            size = _preferred(queries, release)
        names = "/".join(name for name, _ in queries[: None if _asks_all(release) else 1])
        steps.append(
            BlockSizeStep(
                block_size=size,
                cause="default" if size == DEFAULT_BLOCK_SIZE else "backend",
                text=f"preferred by {names}" if queries and not reset else "vLLM's default",
                behaviour=blocks.BLOCK_SIZE_SHARED_BY_ALL_BACKENDS if len(queries) > 1 and _asks_all(release) else None,
            )
        )
    before = size
    state_block, state_page = config.state.block_size, config.state.page_padded
    if geometry.is_hybrid and queries and not release.has(state_history.HYBRID_BLOCK_AT_CONFIG_TIME):
        hybrid = state_blocks.once_built(size, layers, queries, geometry, config, split, cache_dtype)
        size, state_block, state_page = hybrid.block_size, hybrid.state_block_size, hybrid.page_padded
        steps += hybrid.steps
    shared_page = None
    if queries and config.skip_tokens and release.has(blocks.SKIP_LIST_ALIGNS_BLOCK_SIZE):
        aligned, shared_page = _align_for_skip_list(
            size, queries[0], geometry, config, split, cache_dtype, state_page or 0
        )
        if aligned != size:
            steps.append(
                BlockSizeStep(
                    block_size=aligned,
                    cause="skip_alignment",
                    text="raised so that a quantised page covers an unquantised one (a skip list is given)",
                    behaviour=blocks.SKIP_LIST_ALIGNS_BLOCK_SIZE,
                )
            )
        size = aligned
        state_page = state_page if state_page is None or shared_page is None else shared_page
    if size != before:
        _check_aligned(size, queries, release)
    return BlockSize(size, tuple(steps), shared_page, state_block, state_page)


def _state_step(size: int) -> BlockSizeStep:
    return BlockSizeStep(
        block_size=size,
        cause="state_alignment",
        text="raised so that an attention page covers a state",
        behaviour=state_history.HYBRID_BLOCK_AT_CONFIG_TIME,
    )


def _config_time_steps(config: EngineConfig, size: int) -> tuple[BlockSizeStep, ...]:
    asked = config.user_block_size
    steps = []
    if asked is not None:
        steps.append(BlockSizeStep(block_size=asked, cause="user", text=f"--block-size {asked}"))
    raised = config.state.attention_block_size
    if raised is not None and raised != asked:
        steps.append(_state_step(raised))
        asked = raised
    if asked != size:
        settled = size != DEFAULT_BLOCK_SIZE or asked is not None
        steps.append(
            BlockSizeStep(
                block_size=size,
                cause="config_time_mla" if settled else "default",
                text="set for MLA while the config is checked" if settled else "vLLM's default",
                behaviour=backend_history.MLA_BACKEND_AT_CONFIG_TIME if settled else None,
            )
        )
    return tuple(steps)


def _asks_all(release: Release) -> bool:
    return release.has(blocks.BLOCK_SIZE_SHARED_BY_ALL_BACKENDS)


def _distinct_backends(layers: tuple[BuiltLayer, ...], cache_dtype: str) -> list[tuple[str, BackendQuery]]:
    """The model's backends in layer order, each with the query of its first layer, as the engine sees them now."""
    found: dict[str, BackendQuery] = {}
    for layer in layers:
        for name in (layer.asked_first, layer.backend):
            if name is not None and name not in found and not is_ssm(name):
                found[name] = replace(layer.query, run_cache_dtype=cache_dtype)
    return list(found.items())


def _preferred(queries: list[tuple[str, BackendQuery]], release: Release) -> int:
    """The block size for backends without a `--block-size`: the first one's wish, or (0.31.0) one that all take."""
    if not _asks_all(release) or len(queries) == 1:
        name, query = queries[0]
        return preferred_block_size(name, release, query, DEFAULT_BLOCK_SIZE)
    if all(supports_block_size(name, release, query, DEFAULT_BLOCK_SIZE) for name, query in queries):
        return DEFAULT_BLOCK_SIZE
    sizes = [
        sorted({smallest(size) for size in kernel_block_sizes(name, release, query)}) or [1] for name, query in queries
    ]
    for candidate in sorted({math.lcm(*choice) for choice in itertools.product(*sizes)}):
        if all(supports_block_size(name, release, query, candidate) for name, query in queries):
            return candidate
    listed = "; ".join(
        f"{name}: [{', '.join(map(str, kernel_block_sizes(name, release, query)))}]" for name, query in queries
    )
    raise stop(
        Stage.BLOCK_SIZE,
        NoSharedBlockSize(backends=tuple(name for name, _ in queries)),
        f"The attention backends share no supported KV cache block size ({listed}).",
    )


def _align_for_skip_list(
    size: int,
    first: tuple[str, BackendQuery],
    geometry: ModelGeometry,
    config: EngineConfig,
    split: Split,
    cache_dtype: str,
    state_page: int = 0,
) -> tuple[int, int | None]:
    """(block size, shared page bytes) once a skip list is in play; `state_page` is what states were padded to.

    With p bytes a token for the launch's cache dtype and q for the model's own, both priced with the model-level
    heads and head size as a key and a value: nothing happens if p = q. Else the block grows, in units of the
    larger of the block size and the smallest kernel block s, until p * block >= q * s (and covers a padded state).
    DeepSeek MLA, fp8: p = 2 * 576, q = 2 * 1,152, s = 64: 64 tokens become 128.
    """
    name, query = first
    primary = key_value_bytes(geometry, config, split, cache_dtype, name)
    unquantised = key_value_bytes(geometry, config, split, "auto", name)
    if unquantised < primary:
        raise stop(
            Stage.BLOCK_SIZE,
            AssertionFails(check="an unquantised token is smaller than a quantised one"),
            f"padded-spec per-token page ({unquantised}B) < primary ({primary}B)",
            exception="AssertionError",
        )
    if unquantised == primary:
        return size, None
    kernel = min(smallest(each) for each in kernel_block_sizes(name, config.release, query))
    unit = max(kernel, size)
    aligned = max(size, unit * ceil_div(max(unquantised * kernel, state_page), unit * primary))
    return aligned, aligned * primary


def _check_aligned(size: int, queries: list[tuple[str, BackendQuery]], release: Release) -> None:
    if not release.has(blocks.ALIGNED_BLOCK_SIZE_CHECKED):
        return
    rejecting = [name for name, query in queries if not supports_block_size(name, release, query, size)]
    if rejecting:
        raise stop(
            Stage.BLOCK_SIZE,
            NoSharedBlockSize(backends=tuple(rejecting), block_size=size),
            f"Aligned KV cache block size {size} is not supported by attention backend(s): {', '.join(rejecting)}.",
        )
