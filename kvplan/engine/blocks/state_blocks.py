"""Block sizes of hybrid models: an attention page must cover a state, and a state's page is padded to it.

With A bytes of attention a token (model-level heads, the launch's cache dtype), M bytes of state and K tokens that a
block is a multiple of, the attention block becomes at least K * ceil(M / (K * A)) tokens. Where the state of every
block is cached (mode `all`), it becomes a multiple of lcm(chunk, K) tokens instead. A state's page is padded to the
attention page, block * A bytes.

Qwen3-Next in bfloat16: A = 2 * 512 * 2 = 2,048 and M = 1,097,728 bytes; K = 16 gives 544 tokens, a page of 1,114,112.

0.16 to 0.19 do this while the config is checked (`HybridAttentionMambaModelConfig`, model_executor/models/config.py),
later releases once the model is built (`Platform._align_hybrid_block_size`, platforms/interface.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import lcm

from kvplan.engine.backends.blocks import kernel_block_sizes, smallest
from kvplan.engine.backends.values import BackendQuery
from kvplan.engine.blocks.token_bytes import beside_states
from kvplan.engine.cache_dtypes.dtypes import storage_dtype
from kvplan.engine.config import EngineConfig
from kvplan.engine.failures import AssertionFails, BlockExceedsBatch, StateModeRefused
from kvplan.engine.layers.built import BuiltLayer
from kvplan.engine.models.geometry import ModelGeometry
from kvplan.engine.parallelism.split import Split
from kvplan.engine.specs.base import ceil_div, latent_token_bytes
from kvplan.engine.states.options import StateOptions
from kvplan.engine.states.tensors import build_state
from kvplan.engine.stop import stop
from kvplan.engine.values import BlockSizeStep, Stage
from kvplan.history import compressed
from kvplan.history import state as history
from kvplan.releases import Release

DEFAULT_BLOCK_SIZE = 16
"""Tokens a block where the operator did not say, once the config has a default."""


@dataclass(frozen=True, slots=True)
class Aligned:
    """What aligning made of the attention block (tokens), the state block (tokens) and the state page (bytes)."""

    block_size: int
    state_block_size: int | None
    page_padded: int | None
    steps: tuple[BlockSizeStep, ...] = ()


def at_config_time(geometry: ModelGeometry, config: EngineConfig, split: Split, cache_dtype: str) -> EngineConfig:
    """The config with the block sizes that 0.16 to 0.19 settle for a hybrid model before any layer exists."""
    if not geometry.is_hybrid or geometry.state is None or not config.release.has(history.HYBRID_BLOCK_AT_CONFIG_TIME):
        return config
    start = config.user_block_size
    if start is None and not config.release.has(history.STATE_BLOCK_DEFAULT_UNSET):
        start = DEFAULT_BLOCK_SIZE
    state_bytes = _model_state_bytes(geometry, config, split, Stage.OPTIONS)
    aligned = _align(
        start or 0,
        _config_time_unit(geometry, config),
        state_bytes,
        _attention_token_bytes(geometry, config, split, cache_dtype, None),
        geometry,
        config.state,
    )
    if config.state.cache_mode == "align" and config.release.has(history.BLOCK_MUST_FIT_BATCH_AT_CONFIG_TIME):
        _check_batch(aligned.block_size, config, Stage.OPTIONS, "ValidationError")
    if config.state.cache_mode == "align" and config.release.has(history.HYBRID_BLOCK_CHECKED_AT_CONFIG_TIME):
        _check_steps(aligned.block_size, config, Stage.OPTIONS, "ValidationError")
    state = replace(
        config.state,
        block_size=aligned.state_block_size,
        attention_block_size=aligned.block_size,
        page_padded=aligned.page_padded,
    )
    return replace(config, state=state)


def _config_time_unit(geometry: ModelGeometry, config: EngineConfig) -> int:
    if geometry.use_mla:
        return 128 if config.attention_backend == "CUTLASS_MLA" else 64
    if (
        config.release.has(history.HYBRID_BLOCK_UNIT_32_ON_BLACKWELL)
        and config.hardware.capability[0] == 10
        and geometry.head_size == 256
        and config.attention_backend in (None, "FLASHINFER")
    ):
        return 32
    return 16


def once_built(
    size: int,
    layers: tuple[BuiltLayer, ...],
    backends: Sequence[tuple[str, BackendQuery]],
    geometry: ModelGeometry,
    config: EngineConfig,
    split: Split,
    cache_dtype: str,
) -> Aligned:
    """`size` raised for a hybrid model of 0.20 and later, `backends` being those of its attention layers."""
    release = config.release
    state_bytes = _model_state_bytes(geometry, config, split, Stage.BLOCK_SIZE)
    if not state_bytes:
        return Aligned(size, config.state.block_size, None)
    minima = [min(smallest(each) for each in kernel_block_sizes(name, release, query)) for name, query in backends]
    unit = max(minima[0], size)
    if geometry.use_mla and release.has(history.HYBRID_MLA_UNIT_128):
        unit = max(unit, 128)
    if config.state.cache_mode == "align" and release.has(history.HYBRID_BLOCK_SUITS_CHECKPOINTS):
        unit = lcm(unit, _checkpoint_tokens(layers))
    common = lcm(*minima) if release.has(history.HYBRID_BLOCK_SUITS_ALL_BACKENDS) else _pool_page(backends, release)
    token_bytes = _attention_token_bytes(geometry, config, split, cache_dtype, backends[0][0])
    return _align(size, unit, state_bytes, token_bytes, geometry, config.state, common)


def _pool_page(backends: Sequence[tuple[str, BackendQuery]], release: Release) -> int:
    """Tokens of a pooled indexer's page (32 rows, on compute capability 12.x 64); 1 where keys are not pooled."""
    pool, query = max(((query.tokens_per_state, query) for _, query in backends), key=lambda found: found[0])
    if pool == 1 or not release.has(compressed.KPOOL_ALIGNS_BLOCK_SIZE):
        return 1
    return pool * (64 if query.major == 12 else 32)


def _checkpoint_tokens(layers: tuple[BuiltLayer, ...]) -> int:
    """The alignment of prompt positions that all state layers of a rank name; 1 where one of them names none."""
    named = [layer.state.checkpoint_tokens for layer in layers if layer.state is not None]
    return 1 if None in named else lcm(*(each for each in named if each is not None))


def _align(
    size: int,
    unit: int,
    state_bytes: int,
    token_bytes: int,
    geometry: ModelGeometry,
    options: StateOptions,
    common: int = 1,
) -> Aligned:
    if not state_bytes:
        return Aligned(size, options.block_size, None)
    state_block = options.block_size
    if options.cache_mode == "all":
        chunk = lcm(options.user_block_size or geometry.state_chunk, unit)
        _check_divisors(chunk, token_bytes)
        wanted = state_block = chunk * ceil_div(ceil_div(state_bytes, token_bytes), chunk)
    else:
        _check_divisors(unit, token_bytes)
        wanted = unit * ceil_div(state_bytes, unit * token_bytes)
        wanted = common * ceil_div(wanted, common)
    raised = max(size, wanted)
    if options.cache_mode == "align":
        state_block = raised
    page = raised * token_bytes
    if page < state_bytes:
        raise stop(
            Stage.BLOCK_SIZE,
            AssertionFails(check="an attention page is smaller than a state", page_bytes=page),
            "",
            exception="AssertionError",
        )
    steps: tuple[BlockSizeStep, ...] = ()
    if raised != size:
        steps = (
            BlockSizeStep(
                block_size=raised,
                cause="state_alignment",
                text=f"raised so that an attention page covers one state of {state_bytes:,} bytes",
                behaviour=history.HYBRID_BLOCK_AT_CONFIG_TIME,
            ),
        )
    return Aligned(raised, state_block, page if page != state_bytes else None, steps)


def _check_divisors(unit: int, token_bytes: int) -> None:
    """Raises StartupStops where a state is divided by what is nothing: heads of no size, chunks of no tokens."""
    if unit == 0 or token_bytes == 0:
        check = "a token of the attention layers has bytes" if unit else "a chunk of states has tokens"
        raise stop(
            Stage.BLOCK_SIZE,
            AssertionFails(check=check),
            "integer division or modulo by zero",
            exception="ZeroDivisionError",
        )


def check_planned(block_sizes: Sequence[int], config: EngineConfig) -> None:
    """What mode `align` asks of the block sizes (tokens) of all groups, once they are planned.

    Raises StartupStops as `VllmConfig.validate_block_size` does: the scheduler could not end a step on a block.
    """
    if config.state.cache_mode != "align" or not block_sizes:
        return
    if config.release.has(history.BLOCK_MUST_FIT_BATCH):
        _check_batch(min(block_sizes), config, Stage.CAPACITY, "AssertionError")
    if not config.release.has(history.HYBRID_BLOCK_CHECKED_AT_CONFIG_TIME):
        _check_steps(min(block_sizes), config, Stage.CAPACITY, "AssertionError")
    if config.model_runner == "V2" and config.release.has(history.ALIGN_EXCLUDES_V2_RUNNER):
        raise stop(
            Stage.CAPACITY,
            StateModeRefused(option="VLLM_USE_V2_MODEL_RUNNER"),
            "Model Runner V2 has not yet supported mamba_cache_mode='align'.",
            exception="AssertionError",
        )


def _check_batch(block_size: int, config: EngineConfig, stage: Stage, exception: str) -> None:
    batch = config.max_num_batched_tokens
    if block_size > batch:
        raise stop(
            stage,
            BlockExceedsBatch(block_size=block_size, batched_tokens=batch),
            f"In Mamba cache align mode, block_size ({block_size}) must be <= max_num_batched_tokens ({batch}).",
            exception=exception,
        )


def _check_steps(block_size: int, config: EngineConfig, stage: Stage, exception: str) -> None:
    """A step must be able to end at the end of any block."""
    threshold = config.long_prefill_threshold
    if 0 < threshold < block_size and config.release.has(history.BLOCK_MUST_FIT_LONG_PREFILL):
        raise stop(
            stage, AssertionFails(check="mode align ends long prefills at the end of a block"), "", exception=exception
        )
    if not config.chunked_mm_input:
        raise stop(
            stage,
            StateModeRefused(option="--disable-chunked-mm-input"),
            "Chunked MM input is required because we need the flexibility to schedule a multiple of block_size tokens "
            "even if they are in the middle of a mm input",
            exception=exception,
        )


def _model_state_bytes(geometry: ModelGeometry, config: EngineConfig, split: Split, stage: Stage) -> int:
    """Bytes of the largest state that the model class reports, for one rank."""
    if geometry.state is None:
        return 0
    return max(
        build_state(
            state,
            config.state,
            config.release,
            tensor=split.tensor,
            model_dtype=config.model_dtype,
            hardware=config.hardware,
            stage=stage,
        ).bytes
        for state in (geometry.state, *geometry.state.beside)
    )


def _attention_token_bytes(
    geometry: ModelGeometry, config: EngineConfig, split: Split, cache_dtype: str, backend: str | None
) -> int:
    """Bytes of one token in one attention layer, with the model-level heads and head size."""
    if geometry.use_mla:
        return latent_token_bytes(None, geometry.head_size, storage_dtype(cache_dtype, config.model_dtype))
    return beside_states(geometry, config, split, cache_dtype, backend)
