"""The emulated start-up, in vLLM's own order: one stage after the other until one refuses.

The first refusal is the outcome. Stages that do not need its result are still computed, so that one run reports
every problem.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from kvplan.checkpoint.values import Checkpoint
from kvplan.engine import arithmetic as tracing
from kvplan.engine import views
from kvplan.engine.backends.layouts import kv_cache_layout
from kvplan.engine.blocks import block_size, prefix_units, state_blocks
from kvplan.engine.blocks.block_size import BlockSize
from kvplan.engine.cache_dtypes import modelopt
from kvplan.engine.cache_dtypes import resolution as cache_dtype
from kvplan.engine.checks import bounds, quantisation, remote_code, ropes, shares, weights
from kvplan.engine.config import EngineConfig, check_options, validate
from kvplan.engine.coverage import is_covered
from kvplan.engine.failures import (
    AssertionFails,
    CacheLayoutImpossible,
    EmptyStage,
    Failure,
    ModelRefused,
    NotEmulated,
    RefusedOption,
    UnknownArchitecture,
)
from kvplan.engine.groups import grouping
from kvplan.engine.groups.grouping import CacheGroup, Grouping
from kvplan.engine.layers import build as layers
from kvplan.engine.layers.built import Built, BuiltLayer
from kvplan.engine.models import build as build_model
from kvplan.engine.models.geometry import ModelGeometry
from kvplan.engine.models.refusals import Refused, Unplaceable
from kvplan.engine.options import attention, connectors
from kvplan.engine.parallelism import context as context_parallel
from kvplan.engine.parallelism import split as parallel
from kvplan.engine.pool import capacity as sizing
from kvplan.engine.pool import memory
from kvplan.engine.specs import strides
from kvplan.engine.specs.base import AttentionSpec, BareAssertion, LayerSpec
from kvplan.engine.specs.build import build_specs
from kvplan.engine.speculation.settle import settle
from kvplan.engine.stop import StartupStops, stop
from kvplan.engine.values import (
    BlockSizeStep,
    Capacity,
    Group,
    LayerPlan,
    MemoryEstimate,
    Plan,
    Settings,
    SharedLayer,
    Skip,
    Stage,
    StartupError,
    Step,
)
from kvplan.history import backends as backend_history
from kvplan.launch.values import Launch


@dataclass(slots=True)
class _Progress:
    """What has been computed so far; a stage that refuses leaves the rest empty."""

    geometry: ModelGeometry | None = None
    config: EngineConfig | None = None
    cache_dtype: str = "auto"
    built: Built | None = None
    sizes: dict[int, BlockSize] = field(default_factory=dict)
    specs: dict[str, LayerSpec] = field(default_factory=dict)
    grouping: Grouping | None = None
    layout: str | None = None
    capacity: Capacity | None = None
    kernels: dict[int, int] = field(default_factory=dict)
    errors: list[StartupError] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)


def plan(checkpoint: Checkpoint, launch: Launch, *, draft: Checkpoint | None = None) -> Plan:
    """Emulate the start-up of `launch` for the model in `checkpoint`.

    `draft` is the checkpoint of the draft model that --speculative-config names
    (`speculation.wanted.draft_reference`); a draft that is part of the target needs none.

    Raises InputError where kvplan itself cannot go on (a layout it does not emulate, a field of the wrong type);
    whatever vLLM would refuse is the plan's outcome instead.
    """
    progress = _Progress()
    for refusal in launch.refusals:
        progress.errors.append(
            StartupError(Stage.OPTIONS, refusal.exception, refusal.message, RefusedOption(option=refusal.option))
        )
    if not progress.errors:
        try:
            _run(checkpoint, launch, progress, draft)
        except StartupStops as stopped:
            progress.errors.append(stopped.error)
    return _assemble(checkpoint, launch, progress, draft)


def _run(checkpoint: Checkpoint, launch: Launch, progress: _Progress, draft: Checkpoint | None) -> None:
    with _noted(progress):
        remote_code.check(checkpoint, launch)
    with _noted(progress):
        ropes.check(checkpoint, launch.release)
    geometry = progress.geometry = _geometry(_as_asked(checkpoint, launch), launch)
    speculation = settle(
        checkpoint,
        launch,
        geometry,
        draft=draft,
        tensor_parallel=launch.get("tensor_parallel_size") or 1,
        pipeline_parallel=launch.get("pipeline_parallel_size") or 1,
    )
    modelopt.check(checkpoint, launch.release)
    config = validate(checkpoint, launch, geometry, speculation)
    progress.config = config = block_size.config_time_backend(geometry, config)
    progress.steps += config.steps
    resolved = cache_dtype.resolve(checkpoint, config, use_mla=geometry.use_mla)
    progress.cache_dtype = resolved.cache_dtype
    if resolved.draft_keeps_auto:
        progress.config = config = _draft_at_auto(config)
    progress.steps += resolved.steps
    split = parallel.split(geometry, config)
    progress.steps += split.steps
    with _noted(progress):
        quantisation.check_support(
            checkpoint, config.quantization_method, config.model_dtype, config.hardware, config.release
        )
    bounds.check_block_division(launch)
    with _noted(progress):
        shares.check(checkpoint, launch, geometry, config)
    with _noted(progress):
        weights.check(checkpoint, geometry, config, feed_forward=False)
    progress.config = config = state_blocks.at_config_time(geometry, config, split, resolved.cache_dtype)
    built = progress.built = layers.build(checkpoint, geometry, config, split, resolved.cache_dtype)
    progress.steps += built.steps
    if built.error is not None:
        raise StartupStops(built.error)
    with _noted(progress):
        weights.check(checkpoint, geometry, config, feed_forward=True)
    for rank in range(config.pipeline_parallel):
        mine = tuple(layer for layer in built.layers if layer.rank == rank)
        run_dtype = mine[0].run_cache_dtype if mine else resolved.cache_dtype
        size = progress.sizes[rank] = block_size.choose(mine, geometry, config, split, run_dtype)
        progress.specs |= build_specs(mine, size, config.release)
    for size in progress.sizes.values():
        context_parallel.check_interleave(launch, config.decode_context_parallel, size.block_size)
    _check_pages(progress.specs)
    progress.layout = _layout(launch, config, built, progress.specs)
    progress.specs = strides.within_layout(progress.specs, progress.layout, config.release)
    grouped = grouping.group(
        progress.specs,
        config.release,
        hybrid_manager_disabled=config.hybrid_manager_disabled,
        layout=progress.layout,
    )
    for group in grouped.groups:
        _check_pages(dict(zip(group.layers, group.specs, strict=True)))
    progress.grouping = grouped
    progress.steps += progress.grouping.steps
    available = config.kv_cache_memory_bytes or launch.available_kv_memory
    estimate = memory.estimate(checkpoint, launch, config, draft) if available is None else None
    _size_and_view(launch, progress, config, built, progress.grouping, available if estimate is None else estimate)
    with _noted(progress):
        connectors.check_offloading_size(launch)


@contextmanager
def _noted(progress: _Progress) -> Iterator[None]:
    """A check whose refusal ends vLLM's start-up but leaves kvplan everything it needs to go on."""
    try:
        yield
    except StartupStops as stopped:
        progress.errors.append(stopped.error)


def _draft_at_auto(config: EngineConfig) -> EngineConfig:
    """The config with the cache of a separate draft left at `auto`, which the target's hook sees to."""
    speculation = config.speculation
    if speculation is None or speculation.method == "mtp" or speculation.cache_dtype is not None:
        return config
    return replace(config, speculation=replace(speculation, cache_dtype="auto"))


def _as_asked(checkpoint: Checkpoint, launch: Launch) -> Checkpoint:
    """The checkpoint as the model's code reads it: `--disable-sliding-window` takes the window out of the config."""
    if not launch.get("disable_sliding_window"):
        return checkpoint
    text = {**checkpoint.text_config, "sliding_window": None}
    nested = checkpoint.text_config is not checkpoint.config
    return replace(checkpoint, text_config=text, config=checkpoint.config if nested else text)


def _geometry(checkpoint: Checkpoint, launch: Launch) -> ModelGeometry:
    """The model, unless vLLM refuses it; what it refuses of the options comes before a model that cannot be built."""
    pooler = launch.get("pooler_config")
    try:
        return build_model(
            checkpoint,
            launch.release,
            runner=launch.get("runner") or "auto",
            convert=launch.get("convert") or "auto",
            model_impl=launch.get("model_impl") or "auto",
            mla_disabled=launch.environment.get("VLLM_MLA_DISABLE", "0") not in ("", "0"),
            pooler=pooler if isinstance(pooler, Mapping) else None,
            indexer_dtype=attention.indexer_dtype(launch),
            datacenter_blackwell=launch.hardware.capability[0] == 10,
        )
    except Refused as refused:
        raise _model_refused(refused, checkpoint, launch) from None
    except Unplaceable as unplaceable:
        check_options(checkpoint, launch)
        raise stop(Stage.LAYERS, NotEmulated(why=unplaceable.why), str(unplaceable), exception="NotEmulated") from None


def _model_refused(refused: Refused, checkpoint: Checkpoint, launch: Launch) -> StartupStops:
    exception, message = refused.exception, refused.message
    if refused.stage != Stage.OPTIONS:
        check_options(checkpoint, launch)
        shares.check_before_layers(checkpoint, launch, refused.towers)
        if refused.in_stages is not None and (launch.get("pipeline_parallel_size") or 1) > 1:
            exception, message = refused.in_stages
    return stop(Stage(refused.stage), _refusal(refused), message, exception=exception)


def _refusal(refused: Refused) -> Failure:
    if refused.stage == Stage.OPTIONS:
        return UnknownArchitecture()
    return AssertionFails(check=refused.check) if refused.exception == "AssertionError" else ModelRefused()


def _check_pages(specs: dict[str, LayerSpec]) -> None:
    """vLLM reads every page size before it groups and after, so a page padded to less than it holds fails there."""
    for name, spec in specs.items():
        try:
            _ = spec.page_bytes
        except BareAssertion as failed:
            raise stop(Stage.SPECS, failed.facts.about(name), "", exception="AssertionError") from None


def _layout(launch: Launch, config: EngineConfig, built: Built, specs: dict[str, LayerSpec]) -> str | None:
    last = {layer.backend: layer for layer in built.layers if layer.state is None}
    decision = kv_cache_layout(
        [(name, replace(layer.query, run_cache_dtype=layer.run_cache_dtype)) for name, layer in last.items()],
        config.release,
        shapes={(spec.num_kv_heads or 1, spec.block_size, spec.page_bytes) for spec in specs.values()},
        requested=config.cache_layout_wish,
        connector=_connector_layout(launch, config),
    )
    if decision is None:
        return None
    if decision.error is not None:
        raise stop(Stage.SPECS, CacheLayoutImpossible(requested=config.cache_layout_wish), decision.error)
    return decision.layout


def _connector_layout(launch: Launch, config: EngineConfig) -> str | None:
    """The layout that the KV connector asks for, where it is settled with the specs."""
    if config.release.has(backend_history.LAYOUT_RESOLVED_FOR_MODEL):
        return connectors.preferred_layout(launch, Stage.SPECS, use_mla=config.use_mla)
    if config.model_runner == "V2" or config.release.has(backend_history.LAYOUT_ASKED_WITH_SPECS):
        _check_layout(launch, config, Stage.SPECS)
    return None


def _check_layout(launch: Launch, config: EngineConfig, stage: Stage) -> None:
    """What older releases find out about the order of the cache when a backend asks for it."""
    wish = config.cache_layout_wish
    if wish and wish not in ("NHD", "HND"):
        raise stop(
            stage,
            CacheLayoutImpossible(requested=wish),
            f"Invalid value '{wish}' for VLLM_KV_CACHE_LAYOUT. Valid options: ['NHD', 'HND'].",
        )
    connectors.preferred_layout(launch, stage, use_mla=config.use_mla)


def _check_stages(names: list[frozenset[str]], groups: tuple[CacheGroup, ...], config: EngineConfig) -> None:
    """Every pipeline stage must hold part of the cache: the pool is divided by the layers of each."""
    if not groups or all(names):
        return
    divides = config.release.has(backend_history.LAYOUT_RESOLVED_FOR_MODEL)
    raise stop(
        Stage.CAPACITY,
        EmptyStage(),
        "integer division or modulo by zero" if divides else "group_size must be greater than 0",
        exception="ZeroDivisionError" if divides else "AssertionError",
    )


def _size_and_view(
    launch: Launch,
    progress: _Progress,
    config: EngineConfig,
    built: Built,
    grouped: Grouping,
    available: int | MemoryEstimate | None,
) -> None:
    """Capacity, kernel blocks and views; a pool that is too small does not keep the views from being checked."""
    names = [
        frozenset(layer.geometry.name for layer in built.layers if layer.rank == rank)
        for rank in range(config.pipeline_parallel)
    ]
    workers = [tuple(group.on_worker(mine) for group in grouped.groups) if mine else () for mine in names]
    specs = (spec for group in grouped.groups for spec in group.specs)
    context_parallel.check_specs(specs, config.decode_context_parallel)
    if not isinstance(available, MemoryEstimate):
        sized = sizing.size(workers, config, available, whole=grouped.groups)
    else:
        sized = sizing.size_estimated(workers, config, available, whole=grouped.groups)
    progress.capacity = sized.capacity
    if sized.error is not None:
        progress.errors.append(sized.error)
    try:
        _check_stages(names, grouped.groups, config)
        state_blocks.check_planned([group.block_size for group in grouped.groups], config)
        prefix_units.check(launch, grouped.groups, config)
    except StartupStops as stopped:
        progress.errors.append(stopped.error)
    by_name = {layer.geometry.name: layer for layer in built.layers}
    num_blocks = sized.capacity.num_blocks or 1
    checked: set[tuple[object, ...]] = set()
    try:
        if progress.layout is None:
            _check_layout(launch, config, Stage.KV_CACHE_VIEW)
        for groups in workers:
            for position, group in enumerate(groups):
                kernel = views.kernel_block_size(group, by_name, config.release, progress.layout)
                progress.kernels[position] = kernel
                for name, spec in zip(group.layers, group.specs, strict=True):
                    layer = by_name[name]
                    same = (layer.backend, layer.cache_dtype, layer.run_cache_dtype, spec, kernel)
                    if same not in checked:
                        checked.add(same)
                        views.check_view(name, layer, spec, kernel, num_blocks, config)
    except StartupStops as stopped:
        progress.errors.append(stopped.error)


def _assemble(checkpoint: Checkpoint, launch: Launch, progress: _Progress, draft: Checkpoint | None) -> Plan:
    config, built = progress.config, progress.built
    drafted = None if config is None or config.speculation is None else config.speculation.architecture
    exact = progress.geometry is not None and is_covered(progress.geometry, launch.release, drafted)
    block_steps = _block_steps(progress)
    layers, groups = _layer_plans(progress, exact), _groups(progress)
    trace = tuple(progress.steps) + _block_trace(block_steps)
    trace += tracing.layer_steps(layers, progress.specs, trace)
    trace += tracing.capacity_steps(progress.capacity, groups, launch.release)
    return Plan(
        checkpoint=checkpoint,
        launch=launch,
        release=launch.release,
        geometry=progress.geometry,
        settings=None if config is None else _settings(progress, config),
        skip=Skip(tokens=() if config is None else config.skip_tokens) if built is None else built.skip,
        layers=layers,
        shared=_shared(progress),
        groups=groups,
        block_size_steps=block_steps,
        backends=() if built is None else built.backends,
        capacity=progress.capacity,
        error=progress.errors[0] if progress.errors else None,
        later_errors=tuple(progress.errors[1:]),
        trace=trace,
        exact=exact,
        draft=draft,
    )


def _shared(progress: _Progress) -> tuple[SharedLayer, ...]:
    if progress.geometry is None:
        return ()
    speculation = None if progress.config is None else progress.config.speculation
    drafts = () if speculation is None else speculation.layers
    return tuple(
        SharedLayer(layer.name, layer.index, layer.shares_cache_of)
        for layer in (*progress.geometry.layers, *drafts)
        if layer.shares_cache_of is not None
    )


def _block_steps(progress: _Progress) -> tuple[BlockSizeStep, ...]:
    chosen = progress.sizes[0].steps if 0 in progress.sizes else ()
    return (*chosen, *_unified(progress))


def _unified(progress: _Progress) -> tuple[BlockSizeStep, ...]:
    """What grouping made of the block sizes of layers with keys and values whose pages were smaller than others."""
    if progress.grouping is None:
        return ()
    grown: dict[tuple[int, int, int], None] = {}
    for group in progress.grouping.groups:
        for name, spec in zip(group.layers, group.specs, strict=True):
            asked = progress.specs[name]
            if isinstance(spec, AttentionSpec) and type(spec) is type(asked) and spec.block_size > asked.block_size:
                grown[asked.block_size, spec.block_size, spec.page_bytes] = None
    return tuple(
        BlockSizeStep(
            block_size=size,
            cause="unification",
            text=f"{before} times {size // before}, so that these pages are as large as the largest ({page:,} B)",
        )
        for before, size, page in grown
    )


def _block_trace(steps: tuple[BlockSizeStep, ...]) -> tuple[Step, ...]:
    return tuple(
        Step(
            Stage.BLOCK_SIZE,
            "cache.block_size",
            str(step.block_size),
            step.text,
            option="--block-size" if step.cause == "user" else None,
            behaviour=step.behaviour,
        )
        for step in steps
    )


def _settings(progress: _Progress, config: EngineConfig) -> Settings:
    built = progress.built
    size = progress.sizes[0].block_size if 0 in progress.sizes else config.user_block_size or 16
    return Settings(
        model_dtype=config.model_dtype,
        requested_cache_dtype=config.requested_cache_dtype,
        cache_dtype=progress.cache_dtype,
        cache_dtype_after_load=progress.cache_dtype if built is None else built.cache_dtype,
        skip_tokens=config.skip_tokens,
        user_block_size=config.user_block_size,
        block_size=size,
        max_model_len=config.max_model_len,
        max_num_batched_tokens=config.max_num_batched_tokens,
        max_num_seqs=config.max_num_seqs,
        prefix_caching=config.prefix_caching,
        async_scheduling=config.async_scheduling,
        model_runner=config.model_runner,
        max_concurrent_batches=config.max_concurrent_batches,
        hybrid_manager_disabled=config.hybrid_manager_disabled,
        sliding_window=config.sliding_window,
        tensor_parallel=config.tensor_parallel,
        pipeline_parallel=config.pipeline_parallel,
        data_parallel=config.data_parallel,
        decode_context_parallel=config.decode_context_parallel,
        prefill_context_parallel=config.prefill_context_parallel,
        gpu_memory_utilization=config.gpu_memory_utilization,
        num_gpu_blocks_override=config.num_gpu_blocks_override,
        kv_cache_memory_bytes=config.kv_cache_memory_bytes,
        attention_backend=config.attention_backend,
        quantization=config.quantization,
        kv_cache_layout=progress.layout,
        state_mode=None if progress.geometry is None or progress.geometry.state is None else config.state.cache_mode,
        state_block_size=progress.sizes[0].state_block_size if 0 in progress.sizes else None,
        **_speculative(config),
    )


def _speculative(config: EngineConfig) -> dict[str, Any]:
    """The settings of speculative decoding."""
    speculation = config.speculation
    if speculation is None:
        return {}
    return {
        "speculative_method": speculation.method,
        "num_speculative_tokens": speculation.tokens,
        "draft_model": speculation.reference,
        "draft_architecture": speculation.architecture,
        "draft_cache_dtype": speculation.cache_dtype,
    }


def _final_specs(progress: _Progress) -> dict[str, LayerSpec]:
    """Each layer's spec after unification, or as the layer asked for it where start-up stopped before."""
    final = dict(progress.specs)
    if progress.grouping is not None:
        for group in progress.grouping.groups:
            final |= dict(zip(group.layers, group.specs, strict=True))
    return final


def _layer_plans(progress: _Progress, exact: bool) -> tuple[LayerPlan, ...]:
    if progress.built is None or not progress.specs:
        return ()
    final = _final_specs(progress)
    return tuple(
        _layer_plan(layer, progress.specs[layer.geometry.name], final[layer.geometry.name], exact)
        for layer in progress.built.layers
        if layer.geometry.name in progress.specs
    )


def _layer_plan(layer: BuiltLayer, asked: LayerSpec, final: LayerSpec, exact: bool) -> LayerPlan:
    geometry = layer.geometry
    return LayerPlan(
        name=geometry.name,
        index=geometry.index,
        role=geometry.role,
        rank=layer.rank,
        layer_class=geometry.layer_class,
        spec=type(asked).__name__,
        backend=layer.backend,
        cache_dtype=layer.cache_dtype,
        storage_dtype=asked.dtype,
        quant_mode=asked.quant_mode,
        block_size=final.block_size,
        num_kv_heads=asked.num_kv_heads,
        head_size=asked.head_size,
        head_size_v=asked.head_size_v,
        sliding_window=asked.sliding_window,
        page_bytes=_page(final),
        unpadded_page_bytes=final.unpadded_page_bytes,
        spec_block_size=asked.block_size,
        spec_page_bytes=_page(asked),
        skipped=layer.skipped,
        state_shapes=() if layer.state is None else layer.state.shapes,
        state_dtypes=() if layer.state is None else layer.state.dtypes,
        states_per_request=None if layer.state is None else layer.state.per_request,
        covered=exact,
    )


def _page(spec: LayerSpec) -> int:
    try:
        return spec.page_bytes
    except BareAssertion:
        return spec.unpadded_page_bytes


def _groups(progress: _Progress) -> tuple[Group, ...]:
    if progress.grouping is None:
        return ()
    return tuple(_group(group, progress.kernels.get(i)) for i, group in enumerate(progress.grouping.groups))


def _group(group: CacheGroup, kernel: int | None) -> Group:
    return Group(
        layers=group.layers,
        spec="UniformTypeKVCacheSpecs" if group.uniform else type(group.representative).__name__,
        block_size=group.block_size,
        page_bytes=group.page_bytes,
        kernel_block_size=kernel,
    )
