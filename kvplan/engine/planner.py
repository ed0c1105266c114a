"""The emulated start-up, in vLLM's own order: one stage after the other until one refuses.

The first refusal is the outcome. Stages that do not need its result are still computed, so that one run reports
every problem.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from kvplan.checkpoint.values import Checkpoint
from kvplan.engine import after, views
from kvplan.engine import arithmetic as tracing
from kvplan.engine.after.planned import Planned
from kvplan.engine.backends.layouts import disagreement, is_block_outermost, kv_cache_layout
from kvplan.engine.backends.selection import select
from kvplan.engine.backends.values import BackendQuery
from kvplan.engine.blocks import block_size, prefix_units, state_blocks
from kvplan.engine.blocks.block_size import BlockSize
from kvplan.engine.cache_dtypes import modelopt, resolution
from kvplan.engine.checks import bounds, config_values, quantisation, remote_code, ropes, shares, weights
from kvplan.engine.config import EngineConfig, check_options, validate
from kvplan.engine.coverage import is_covered
from kvplan.engine.failures import (
    AssertionFails,
    CacheLayoutImpossible,
    EmptyStage,
    Failure,
    ModelRefused,
    NoBackend,
    NoMemory,
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
from kvplan.engine.options import attention, connectors, given
from kvplan.engine.options.early import Early
from kvplan.engine.options.early import settle as settle_early
from kvplan.engine.options.machine import known_to_machine_only
from kvplan.engine.parallelism import context as context_parallel
from kvplan.engine.parallelism import split as parallel
from kvplan.engine.pool import capacity as sizing
from kvplan.engine.pool import memory
from kvplan.engine.specs import strides
from kvplan.engine.specs.base import AttentionSpec, BareAssertion, LayerSpec
from kvplan.engine.specs.build import build_specs
from kvplan.engine.specs.replicated import keep_drafts_whole
from kvplan.engine.speculation.settle import settle
from kvplan.engine.speculation.values import Speculation
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
from kvplan.errors import InputError
from kvplan.history import backends as backend_history
from kvplan.history import capacity as capacity_history
from kvplan.launch.lookedat import not_looked_at
from kvplan.launch.values import Launch
from kvplan.releases import Release


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
    planned = _assemble(checkpoint, launch, progress, draft)
    if planned.error is not None or progress.built is None or progress.grouping is None:
        return planned
    return replace(
        planned, after_planning=after.errors(Planned(planned, progress.built.layers, progress.grouping.groups))
    )


def _run(checkpoint: Checkpoint, launch: Launch, progress: _Progress, draft: Checkpoint | None) -> None:
    attention.check_parsed(launch)
    _check_as_written(checkpoint, launch, progress)
    geometry = progress.geometry = _geometry(_as_asked(checkpoint, launch), launch, draft)
    early = settle_early(checkpoint, launch, geometry)
    speculation = _speculation(checkpoint, launch, geometry, early, draft)
    modelopt.check(checkpoint, launch.release)
    config = validate(checkpoint, launch, geometry, early, speculation, noted=lambda: _noted(progress))
    progress.config = config = block_size.config_time_backend(geometry, config)
    progress.steps += config.steps
    resolved = config.resolved
    if geometry.use_mla:
        resolution.check_latent(resolved.cache_dtype, config.release)
    progress.cache_dtype = resolved.cache_dtype
    if resolved.draft_keeps_auto:
        progress.config = config = _draft_at_auto(config)
    progress.steps += resolved.steps
    if not config.divides:
        return
    split = parallel.split(geometry, config)
    progress.steps += split.steps
    bounds.check_block_division(launch)
    _check_shapes(checkpoint, launch, geometry, config, progress)
    progress.config = config = state_blocks.at_config_time(geometry, config, split, resolved.cache_dtype)
    built = progress.built = layers.build(checkpoint, geometry, config, split, resolved.cache_dtype)
    progress.steps += built.steps
    if built.error is not None and not built.of_draft:
        _specify_whole_stages(progress, geometry, config, split)
        raise StartupStops(built.error)
    with _noted(progress):
        config_values.check_feed_forward(checkpoint, geometry, config)
    with _noted(progress):
        weights.check(checkpoint, launch, geometry, config, feed_forward=True)
    if built.error is not None:
        _specify_whole_stages(progress, geometry, config, split)
        raise StartupStops(built.error)
    _specify(progress, geometry, config, split, range(config.pipeline_parallel))
    for size in progress.sizes.values():
        context_parallel.check_interleave(launch, config.decode_context_parallel, size.block_size)
    _check_pages(progress.specs)
    progress.layout = _layout(launch, config, built, progress.specs)
    progress.specs = strides.within_layout(progress.specs, progress.layout, config.release)
    if not all(spec.page_bytes for spec in progress.specs.values()):
        # A page of no bytes is divided by when requests are priced, and there the specs are asked about ranks first.
        context_parallel.check_specs(progress.specs.values(), config.decode_context_parallel)
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


def _check_as_written(checkpoint: Checkpoint, launch: Launch, progress: _Progress) -> None:
    """What vLLM refuses of the model's config while it reads it."""
    with _noted(progress):
        remote_code.check(checkpoint, launch)
    with _noted(progress):
        ropes.check(checkpoint, launch.release)
    with _noted(progress):
        config_values.check_dtype(checkpoint)
    with _noted(progress):
        quantisation.check_named(checkpoint)


def _check_shapes(
    checkpoint: Checkpoint, launch: Launch, geometry: ModelGeometry, config: EngineConfig, progress: _Progress
) -> None:
    """What vLLM refuses while it makes the model's modules before their attention."""
    with _noted(progress):
        shares.check(checkpoint, launch, geometry, config)
    with _noted(progress):
        weights.check(checkpoint, launch, geometry, config, feed_forward=False)
    with _noted(progress):
        config_values.check_rope(checkpoint, geometry, config.release)


def _speculation(
    checkpoint: Checkpoint, launch: Launch, geometry: ModelGeometry, early: Early, draft: Checkpoint | None
) -> Speculation | None:
    """Speculative decoding, unless vLLM refuses it; what it refuses comes before a draft that kvplan cannot place."""
    try:
        return settle(
            checkpoint,
            launch,
            geometry,
            draft=draft,
            tensor_parallel=launch.get("tensor_parallel_size") or 1,
            pipeline_parallel=launch.get("pipeline_parallel_size") or 1,
            max_model_len=early.max_model_len,
        )
    except InputError:
        check_options(checkpoint, launch, geometry, draft)
        raise


def _specify_whole_stages(
    progress: _Progress, geometry: ModelGeometry, config: EngineConfig, split: parallel.Split
) -> None:
    """The specs of the stages that were built before one refused, as far as they can be had."""
    assert progress.built is not None
    with suppress(StartupStops):
        _specify(progress, geometry, config, split, range(progress.built.whole_stages))


def _specify(
    progress: _Progress, geometry: ModelGeometry, config: EngineConfig, split: parallel.Split, stages: range
) -> None:
    """The block size and the specs of each of these pipeline stages. Raises StartupStops."""
    assert progress.built is not None
    for rank in stages:
        mine = tuple(layer for layer in progress.built.layers if layer.rank == rank)
        run_dtype = mine[0].run_cache_dtype if mine else progress.cache_dtype
        size = progress.sizes[rank] = block_size.choose(
            mine, geometry, config, split, run_dtype, progress.built.keepless
        )
        progress.specs |= keep_drafts_whole(build_specs(mine, size, config.release), config)


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


def _geometry(checkpoint: Checkpoint, launch: Launch, draft: Checkpoint | None) -> ModelGeometry:
    """The model, unless vLLM refuses it; what it refuses of the options comes before a model that cannot be built."""
    pooler = launch.get("pooler_config")
    try:
        return build_model(
            checkpoint,
            launch.release,
            runner=launch.get("runner") or "auto",
            convert=launch.get("convert") or "auto",
            model_impl=launch.get("model_impl") or "auto",
            mla_disabled=given.variable(launch, "VLLM_MLA_DISABLE"),
            pooler=pooler if isinstance(pooler, Mapping) else None,
            indexer_dtype=attention.indexer_dtype(launch),
            datacenter_blackwell=launch.hardware.capability[0] == 10,
        )
    except Refused as refused:
        raise _model_refused(refused, checkpoint, launch, draft) from None
    except Unplaceable as unplaceable:
        if unplaceable.numbers is not None:
            check_options(checkpoint, launch, unplaceable.numbers, draft)
        raise stop(Stage.LAYERS, NotEmulated(why=unplaceable.why), str(unplaceable), exception="NotEmulated") from None


def _model_refused(refused: Refused, checkpoint: Checkpoint, launch: Launch, draft: Checkpoint | None) -> StartupStops:
    exception, message = refused.exception, refused.message
    if refused.stage != Stage.OPTIONS and refused.numbers is not None:
        check_options(checkpoint, launch, refused.numbers, draft)
        shares.check_before_layers(checkpoint, launch, refused.towers)
        if refused.in_stages is not None and (launch.get("pipeline_parallel_size") or 1) > 1:
            exception, message = refused.in_stages
    elif refused.late and refused.numbers is not None:
        settle_early(checkpoint, launch, refused.numbers)
    return stop(Stage(refused.stage), _refusal(refused), message, exception=exception)


def _refusal(refused: Refused) -> Failure:
    if refused.stage == Stage.OPTIONS and refused.check is None:
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
    stages = [_stage_backends(built, rank, config.release) for rank in range(config.pipeline_parallel)]
    disagreed = disagreement(stages, config.release)
    if disagreed is not None:
        raise stop(Stage.SPECS, CacheLayoutImpossible(requested=None), disagreed, exception="AssertionError")
    decision = kv_cache_layout(
        dict(backend for stage in stages for backend in stage).items(),
        config.release,
        shapes={(spec.num_kv_heads or 1, spec.block_size, spec.page_bytes) for spec in specs.values()},
        dcp_sharding={spec.divided for spec in specs.values() if isinstance(spec, AttentionSpec)},
        requested=config.cache_layout_wish,
        connector=_connector_layout(launch, config),
    )
    if decision is None:
        return None
    if decision.error is not None:
        raise stop(Stage.SPECS, CacheLayoutImpossible(requested=config.cache_layout_wish), decision.error)
    return decision.layout


def _stage_backends(built: Built, rank: int, release: Release) -> list[tuple[str, BackendQuery]]:
    """The backends of a pipeline stage, each with the question of its last layer.

    A stage without any layer answers with what the model-level numbers would choose.
    """
    if built.layers and not any(layer.rank == rank for layer in built.layers):
        return _without_layers(built.layers[0].query, release)
    last = {layer.backend: layer for layer in built.layers if layer.rank == rank and layer.state is None}
    return [(name, replace(layer.query, run_cache_dtype=layer.run_cache_dtype)) for name, layer in last.items()]


def _without_layers(query: BackendQuery, release: Release) -> list[tuple[str, BackendQuery]]:
    """The backend that the model would get by its own numbers alone, as vLLM asks for it. Raises StartupStops."""
    asked = replace(
        query,
        head_size=query.head_size if query.model_head_size is None else query.model_head_size,
        kv_cache_dtype=query.run_dtype,
        use_sparse=False,
        has_sink=False,
        has_sliding_window=False,
        use_mm_prefix=False,
        use_per_head_quant_scales=False,
        attn_type="decoder",
    )
    chosen = select(asked, release)
    if chosen.backend is None:
        raise stop(
            Stage.SPECS,
            NoBackend(layer="", cache_dtype=asked.kv_cache_dtype, head_size=asked.head_size),
            chosen.error or "",
            exception=chosen.error_type or "ValueError",
        )
    return [(chosen.backend, asked)]


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


def _check_stages(
    names: list[frozenset[str]], groups: tuple[CacheGroup, ...], config: EngineConfig, layout: str | None
) -> None:
    """Every pipeline stage must hold part of the cache: the pool is divided by the layers of each."""
    if not groups or all(names):
        return
    message, exception = "group_size must be greater than 0", "AssertionError"
    if config.release.has(backend_history.LAYOUT_RESOLVED_FOR_MODEL):
        divides = config.release.has(capacity_history.LAYERS_STRIDE_ALONE) and not is_block_outermost(layout or "")
        message = "integer division or modulo by zero" if divides else ""
        exception = "ZeroDivisionError" if divides else "AssertionError"
    raise stop(Stage.CAPACITY, EmptyStage(), message, exception=exception)


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
    if not isinstance(available, MemoryEstimate):
        sized = sizing.size(workers, config, available, whole=grouped.groups)
    else:
        sized = sizing.size_estimated(workers, config, available, whole=grouped.groups)
    if sized.error is None or not isinstance(sized.error.facts, NoMemory):
        # Only where there is any memory is the need of a request asked for.
        specs = (spec for group in grouped.groups for spec in group.specs)
        context_parallel.check_specs(specs, config.decode_context_parallel)
    progress.capacity = sized.capacity
    if sized.error is not None:
        progress.errors.append(sized.error)
    try:
        _check_stages(names, grouped.groups, config, progress.layout)
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
                        views.check_view(
                            name,
                            layer,
                            spec,
                            kernel,
                            num_blocks,
                            config,
                            layout=progress.layout,
                            pool_stride=sizing.bytes_per_block(groups, config.release),
                        )
    except StartupStops as stopped:
        progress.errors.append(stopped.error)


def _assemble(checkpoint: Checkpoint, launch: Launch, progress: _Progress, draft: Checkpoint | None) -> Plan:
    config, built = progress.config, progress.built
    drafted = None if config is None or config.speculation is None else config.speculation.architecture
    covered = progress.geometry is not None and is_covered(progress.geometry, launch.release, drafted)
    block_steps = _block_steps(progress)
    layers, groups = _layer_plans(progress, covered), _groups(progress)
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
        exact=covered and not not_looked_at(launch) and not known_to_machine_only(launch, checkpoint),
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
    """Each layer's spec after unification, or as the layer asked for it where start-up stopped before.

    A pool that is too small stops it before the layers get what unification made of their specs.
    """
    final = dict(progress.specs)
    too_small = any(error.stage == Stage.CAPACITY for error in progress.errors)
    if progress.grouping is not None and not too_small:
        for group in progress.grouping.groups:
            final |= dict(zip(group.layers, group.specs, strict=True))
    return final


def _layer_plans(progress: _Progress, covered: bool) -> tuple[LayerPlan, ...]:
    if progress.built is None or not progress.specs:
        return ()
    final = _final_specs(progress)
    return tuple(
        _layer_plan(layer, progress.specs[layer.geometry.name], final[layer.geometry.name], covered)
        for layer in progress.built.layers
        if layer.geometry.name in progress.specs
    )


def _layer_plan(layer: BuiltLayer, asked: LayerSpec, final: LayerSpec, covered: bool) -> LayerPlan:
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
        covered=covered,
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
