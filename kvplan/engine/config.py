"""Stage 1: the options become an engine config, with vLLM's own defaults and derivations.

Sources: `engine/arg_utils.py`, `config/model.py`, `config/scheduler.py` and `config/vllm.py` of each release.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from kvplan.checkpoint.values import Checkpoint
from kvplan.engine.cache_dtypes import resolution
from kvplan.engine.cache_dtypes.resolution import ResolvedCacheDtype
from kvplan.engine.checks import bounds, executors, features, lora, quantisation, ranks
from kvplan.engine.models.geometry import ModelGeometry
from kvplan.engine.models.numbers import ModelNumbers
from kvplan.engine.options import (
    attention,
    batch,
    cache,
    diffusion,
    given,
    lengths,
    manager,
    model_dtype,
    runner,
    v1_runner,
)
from kvplan.engine.options.early import Early
from kvplan.engine.options.early import settle as settle_early
from kvplan.engine.parallelism import context as context_parallel
from kvplan.engine.parallelism.context import Sizes
from kvplan.engine.parallelism.verify import verify
from kvplan.engine.speculation import running
from kvplan.engine.speculation.settle import check as check_speculation
from kvplan.engine.speculation.values import EAGLE_LIKE, Speculation
from kvplan.engine.states import kernels, replay
from kvplan.engine.states import options as state_options
from kvplan.engine.states.options import NO_STATES, StateOptions
from kvplan.engine.values import Stage, Step
from kvplan.history import capacity, state
from kvplan.history import speculation as speculative
from kvplan.launch.values import Hardware, Launch
from kvplan.releases import Release


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """The launch after option validation: what the later stages read. Lengths and sizes in tokens."""

    release: Release
    hardware: Hardware
    model_dtype: str
    requested_cache_dtype: str
    skip_tokens: tuple[str, ...]
    user_block_size: int | None
    max_model_len: int
    auto_fit: bool
    max_num_batched_tokens: int
    max_num_seqs: int
    long_prefill_threshold: int
    """Tokens above which a prompt counts as long, 0 where none does."""
    chunked_mm_input: bool
    prefix_caching: bool
    replays_windows: bool
    """Whether windows that can be replayed stay out of prefix caching."""
    async_scheduling: bool
    model_runner: str
    max_concurrent_batches: int
    hybrid_manager_disabled: bool
    sliding_window: int | None
    tensor_parallel: int
    pipeline_parallel: int
    data_parallel: int
    gpu_memory_utilization: float
    num_gpu_blocks_override: int | None
    kv_cache_memory_bytes: int | None
    attention_backend: str | None
    backend_by_kind: tuple[tuple[str, str], ...]
    """Backends asked for by the kind of cache that a layer keeps."""
    flash_attn_version: int | None
    use_trtllm_attention: bool | None
    use_non_causal: bool
    mixes_directions: bool
    """Whether layers are asked about as non-causal wherever no backend is named."""
    quantization: str | None
    quantization_method: str | None
    """The method the run ends up with: the checkpoint's, or what claims it."""
    expert_parallel: bool
    shards_hidden_states: bool
    batch_invariant: bool
    decode_context_parallel: int
    prefill_context_parallel: int
    cache_layout_wish: str | None
    use_mla: bool
    divides: bool
    """Whether the model's numbers suit the ranks; its layers cannot be spread otherwise."""
    pipeline_partition: str | None
    resolved: ResolvedCacheDtype
    """The cache dtype of the launch as a whole."""
    speculation: Speculation | None = None
    state: StateOptions = NO_STATES
    steps: tuple[Step, ...] = ()

    @property
    def block_size_at_selection(self) -> int | None:
        """The block size (tokens) that backends are asked about: the operator's, raised over a hybrid's state where
        that happens while the config is checked."""
        raised = self.state.attention_block_size
        if raised is None or (self.user_block_size is None and self.release.has(state.HYBRID_BLOCK_RESET)):
            return self.user_block_size
        return raised

    @property
    def num_speculative_tokens(self) -> int:
        """Tokens that a step speculates, 0 without speculative decoding."""
        return 0 if self.speculation is None else self.speculation.tokens

    @property
    def retained_tokens(self) -> int:
        """Tokens below their window that sliding layers keep for drafts of several MTP modules."""
        if self.speculation is None or not self.release.has(speculative.EXTRA_TOKENS_RETAINED):
            return 0
        return self.speculation.extra_retained_tokens

    @property
    def context_shards(self) -> int:
        """Ranks that share the tokens of one request."""
        return context_parallel.shards(self.decode_context_parallel, self.prefill_context_parallel, self.release)

    @property
    def in_flight_tokens(self) -> int:
        """Tokens that may be scheduled and not yet settled: what a recycling cache reserves for."""
        if self.release.has(capacity.SLIDING_RESERVE_COUNTS_BATCHES_IN_FLIGHT):
            return self.max_concurrent_batches * self.max_num_batched_tokens
        return self.max_num_batched_tokens


Noting = Callable[[], AbstractContextManager[None]]
"""What takes down a refusal that leaves enough to go on with."""


def validate(
    checkpoint: Checkpoint,
    launch: Launch,
    geometry: ModelGeometry,
    early: Early,
    speculation: Speculation | None = None,
    *,
    noted: Noting = nullcontext,
) -> EngineConfig:
    """The engine config of `launch`, checked in vLLM's order; `early` is what was settled before `speculation`.

    Raises StartupStops where vLLM refuses, InputError where kvplan must.
    """
    release = launch.release
    cache_dtype, max_model_len, context = early.cache_dtype, early.max_model_len, early.context
    skip_tokens, steps = cache.skip_list(checkpoint, launch, geometry, cache_dtype)
    dtype = model_dtype.resolve(checkpoint, launch, geometry)
    dtype_cause = model_dtype.cause(launch, checkpoint)
    steps.append(Step(Stage.OPTIONS, "model.dtype", dtype, dtype_cause, option="--dtype"))
    steps.append(_length_step(max_model_len, early.length_cause, "--max-model-len"))
    tensor, pipeline = given.positive(launch, "tensor_parallel_size"), given.positive(launch, "pipeline_parallel_size")
    drafts = 0 if speculation is None else speculation.tokens

    batched, seqs = batch.sizes(launch, geometry, max_model_len)
    bounds.check(launch, bounds.SCHEDULER_BOUNDS)
    lora.check_sizes(launch, geometry, batched=batched, seqs=seqs, draft_tokens=drafts)
    _check_configs(launch)
    steps.append(_batch_step(batched, batch.cause(launch)))

    features.check_encoder_only(launch, geometry)
    prefix_caching = manager.prefix_caching(launch, geometry)
    states = state_options.resolve(
        checkpoint,
        launch,
        geometry,
        prefix_caching=prefix_caching,
        max_model_len=max_model_len,
        user_block_size=given.value(launch, "block_size"),
        speculative_tokens=drafts,
        canvas_tokens=diffusion.tokens(launch),
    )
    steps += states.steps
    resolved = resolution.resolve(checkpoint, release, launch.hardware, requested=cache_dtype, model_dtype=dtype)
    with noted():
        features.check_engram(launch, geometry, checkpoint)
    divides = False
    with noted():
        _verify(launch, geometry, context)
        divides = True
    with noted():
        _check_whole(launch, geometry, context, is_hybrid=geometry.is_hybrid)
    bounds.check_gpu_count(launch, tensor * pipeline * context.prefill)
    with noted():
        quantisation.check_support(checkpoint, early.quantization_method, dtype, launch.hardware, release)

    executors.check(launch)
    version = runner.model_runner(launch, checkpoint, geometry, speculation, pipeline, states.cache_mode)
    asynchronous = runner.async_scheduling(launch, geometry, speculation, version, states.cache_mode)
    limit = lengths.draft_limit(speculation, version, release)
    if limit is not None and limit < max_model_len:
        max_model_len = limit
        cause = "lowered to what the draft takes: on the V2 runner speculation cannot be skipped"
        steps.append(_length_step(max_model_len, cause, "--speculative-config"))
    _check_last(
        checkpoint,
        launch,
        geometry,
        speculation,
        states,
        batch_sizes=(batched, seqs),
        version=version,
        asynchronous=asynchronous,
        prefix_caching=prefix_caching,
    )
    concurrent = runner.concurrent_batches(asynchronous, version, pipeline)
    steps.append(_concurrency_step(concurrent, asynchronous, version, pipeline))

    wishes = attention.wishes(launch, geometry, cache_dtype)

    return EngineConfig(
        release=release,
        hardware=launch.hardware,
        model_dtype=dtype,
        requested_cache_dtype=cache_dtype,
        skip_tokens=skip_tokens,
        user_block_size=given.value(launch, "block_size"),
        max_model_len=max_model_len,
        auto_fit=given.value(launch, "max_model_len") in (-1, "auto"),
        max_num_batched_tokens=batched,
        max_num_seqs=seqs,
        long_prefill_threshold=given.value(launch, "long_prefill_token_threshold") or 0,
        chunked_mm_input=not given.value(launch, "disable_chunked_mm_input"),
        prefix_caching=prefix_caching,
        replays_windows=manager.replays_windows(launch, version, prefix_caching=prefix_caching),
        async_scheduling=asynchronous,
        model_runner=version,
        max_concurrent_batches=concurrent,
        hybrid_manager_disabled=manager.hybrid_manager_disabled(
            launch, checkpoint, drafts_from_states=speculation is not None and speculation.method in EAGLE_LIKE
        ),
        sliding_window=geometry.model_sliding_window,
        tensor_parallel=tensor,
        pipeline_parallel=pipeline,
        data_parallel=given.positive(launch, "data_parallel_size"),
        gpu_memory_utilization=float(given.value(launch, "gpu_memory_utilization")),
        num_gpu_blocks_override=given.value(launch, "num_gpu_blocks_override"),
        kv_cache_memory_bytes=given.value(launch, "kv_cache_memory_bytes"),
        attention_backend=wishes.backend,
        backend_by_kind=wishes.backend_by_kind,
        flash_attn_version=wishes.flash_attn_version,
        use_trtllm_attention=wishes.trtllm,
        use_non_causal=wishes.non_causal,
        mixes_directions=wishes.mixes_directions,
        quantization=given.value(launch, "quantization"),
        quantization_method=early.quantization_method,
        expert_parallel=bool(given.value(launch, "enable_expert_parallel")),
        shards_hidden_states=bool(given.value(launch, "enable_hc_sp")),
        batch_invariant=given.variable(launch, "VLLM_BATCH_INVARIANT"),
        decode_context_parallel=context.decode,
        prefill_context_parallel=context.prefill,
        use_mla=geometry.use_mla,
        divides=divides,
        cache_layout_wish=launch.environment.get("VLLM_KV_CACHE_LAYOUT"),
        pipeline_partition=launch.environment.get("VLLM_PP_LAYER_PARTITION"),
        speculation=speculation,
        state=states,
        resolved=resolved,
        steps=tuple(steps),
    )


def _check_last(
    checkpoint: Checkpoint,
    launch: Launch,
    geometry: ModelGeometry,
    speculation: Speculation | None,
    states: StateOptions,
    *,
    batch_sizes: tuple[int, int],
    version: str,
    asynchronous: bool,
    prefix_caching: bool,
) -> None:
    """What `VllmConfig` refuses once the runner and the schedule are known; `batch_sizes` are tokens and sequences."""
    drafts = 0 if speculation is None else speculation.tokens
    adaptive = speculation is not None and speculation.adaptive
    features.check_sampling_mask(
        launch,
        runner=version,
        speculates=speculation is not None,
        adaptive=adaptive,
        is_diffusion=geometry.is_diffusion,
    )
    features.check_metrics(launch, speculates=speculation is not None)
    features.check_shared_tensors(launch, geometry)
    attention.check_host_rows(launch, indexes=checkpoint.config.get("index_topk") is not None)
    running.check_batch(speculation, launch.release, *batch_sizes)
    features.check_fast_prefill(launch, reads_states=speculation is not None and speculation.method in EAGLE_LIKE)
    if version == "V1":
        v1_runner.check_v1(launch, geometry, speculation, asynchronous=asynchronous)
    running.check_adaptive(speculation, launch, given.number(launch, "pipeline_parallel_size"))
    ranks.check_microbatches(launch)
    features.check_routed_experts_validated(launch, asynchronous=asynchronous)
    features.check_outputs(launch, geometry, runner=version, prefix_caching=prefix_caching, adaptive=adaptive)
    replay.check(
        launch,
        geometry,
        mode=states.cache_mode,
        backend=state_options.backend(launch),
        drafts=drafts or states.canvas_tokens,
        version=version,
    )


def check_options(checkpoint: Checkpoint, launch: Launch, model: ModelNumbers, draft: Checkpoint | None) -> None:
    """Check what can be checked of the options where the model's layers are not known. Raises StartupStops."""
    early = settle_early(checkpoint, launch, model)
    check_speculation(checkpoint, launch, draft, max_model_len=early.max_model_len)
    batch.check_threshold(launch, early.max_model_len)
    bounds.check(launch, bounds.SCHEDULER_BOUNDS)
    _check_configs(launch)
    features.check_encoder_only(launch, model)
    features.check_engram(launch, model, checkpoint)
    _verify(launch, model, early.context)
    _check_whole(launch, model, early.context, is_hybrid=False)
    executors.check(launch)
    features.check_shared_tensors(launch, model)
    attention.check_host_rows(launch, indexes=checkpoint.config.get("index_topk") is not None)
    ranks.check_microbatches(launch)


def _check_configs(launch: Launch) -> None:
    """The smaller configs that are made after the scheduler's."""
    attention.check_backend(launch)
    kernels.check(launch)
    bounds.check(launch, bounds.LOAD_BOUNDS)
    bounds.check(launch, bounds.OBSERVABILITY_BOUNDS)
    features.check_observability(launch)
    features.check_graph_sizes(launch)
    bounds.check(launch, bounds.OFFLOAD_BOUNDS)
    features.check_offloaded_weights(launch)
    features.check_prefill_kernels(launch)
    features.check_additional(launch)
    bounds.check(launch, bounds.WHOLE_BOUNDS)


def _verify(launch: Launch, model: ModelNumbers, context: Sizes) -> None:
    """What the model's numbers allow of the ranks."""
    tensor, stages = given.number(launch, "tensor_parallel_size"), given.number(launch, "pipeline_parallel_size")
    verify(
        model,
        launch.release,
        tensor=tensor,
        stages=stages,
        decode=context.decode,
        expert_parallel=given.flag(launch, "enable_expert_parallel"),
        shards_hidden_states=given.flag(launch, "enable_hc_sp"),
    )
    ranks = tensor * stages * context.prefill * given.number(launch, "data_parallel_size")
    features.check_shared_tensors(launch, model, ranks=ranks)


def _check_whole(launch: Launch, model: ModelNumbers, context: Sizes, *, is_hybrid: bool) -> None:
    """What `VllmConfig` holds against each other next: connector, adapters, rounding."""
    features.check_routed_experts(launch)
    context_parallel.check_connector(launch, context, use_mla=model.use_mla, is_hybrid=is_hybrid)
    lora.check_model(launch, model)
    kernels.check_rounding(launch)


def _length_step(length: int, cause: str, option: str) -> Step:
    return Step(Stage.OPTIONS, "model.max_model_len", str(length), cause, option=option)


def _batch_step(tokens: int, cause: str) -> Step:
    return Step(
        Stage.OPTIONS, "scheduler.max_num_batched_tokens", str(tokens), cause, option="--max-num-batched-tokens"
    )


def _concurrency_step(batches: int, asynchronous: bool, version: str, pipeline: int) -> Step:
    stages = "one pipeline stage" if pipeline == 1 else f"{pipeline} pipeline stages"
    cause = f"async scheduling {'on' if asynchronous else 'off'}, {version} runner, {stages}"
    return Step(Stage.OPTIONS, "engine.max_concurrent_batches", str(batches), cause)
