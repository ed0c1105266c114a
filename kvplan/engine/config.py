"""Stage 1: the options become an engine config, with vLLM's own defaults and derivations.

Sources: `engine/arg_utils.py`, `config/model.py`, `config/scheduler.py` and `config/vllm.py` of each release.
"""

from __future__ import annotations

from dataclasses import dataclass

from kvplan.checkpoint.values import Checkpoint
from kvplan.engine.checks import bounds, quantisation, ranks
from kvplan.engine.models.geometry import ModelGeometry
from kvplan.engine.options import attention, batch, cache, connectors, given, lengths, manager, model_dtype, runner
from kvplan.engine.parallelism import context as context_parallel
from kvplan.engine.speculation import running
from kvplan.engine.speculation.values import EAGLE_LIKE, Speculation
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
    pipeline_partition: str | None
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


def validate(
    checkpoint: Checkpoint, launch: Launch, geometry: ModelGeometry, speculation: Speculation | None = None
) -> EngineConfig:
    """The engine config of `launch`, checked in vLLM's order.

    Raises StartupStops where vLLM refuses, InputError where kvplan must.
    """
    release = launch.release
    cache_dtype = cache.requested_dtype(launch)
    skip_tokens, steps = cache.skip_list(checkpoint, launch, geometry, cache_dtype)
    dtype = model_dtype.resolve(checkpoint, launch, geometry)
    dtype_cause = model_dtype.cause(launch, checkpoint)
    steps.append(Step(Stage.OPTIONS, "model.dtype", dtype, dtype_cause, option="--dtype"))

    bounds.check(launch, bounds.MODEL_BOUNDS)
    max_model_len, cause = lengths.max_model_len(checkpoint, launch)
    steps.append(_length_step(max_model_len, cause, "--max-model-len"))
    method = quantisation.verify(checkpoint, launch)
    bounds.check_length(launch, max_model_len)
    batch.check_features(launch)
    connectors.check(launch)

    bounds.check(launch, bounds.ENGINE_BOUNDS)
    ranks.check_launch(launch, is_moe=geometry.is_moe)
    bounds.check_data_parallel(launch)
    bounds.check_tensor_division(launch)
    ranks.check_parallel(launch)
    tensor, pipeline = given.positive(launch, "tensor_parallel_size"), given.positive(launch, "pipeline_parallel_size")
    context = context_parallel.sizes(launch)
    context_parallel.check_connector(launch, context, use_mla=geometry.use_mla)
    bounds.check_gpu_count(launch, tensor * pipeline * context.prefill)

    batched, seqs = batch.sizes(launch, geometry, max_model_len)
    bounds.check(launch, bounds.SCHEDULER_BOUNDS)
    running.check_adaptive(speculation, launch, pipeline)
    running.check_batch(speculation, release, batched, seqs)
    steps.append(_batch_step(batched, batch.cause(launch)))

    prefix_caching = manager.prefix_caching(launch, geometry)
    states = state_options.resolve(
        checkpoint,
        launch,
        geometry,
        prefix_caching=prefix_caching,
        max_model_len=max_model_len,
        user_block_size=given.value(launch, "block_size"),
        speculative_tokens=0 if speculation is None else speculation.tokens,
    )
    steps += states.steps

    version = runner.model_runner(launch, checkpoint, geometry, speculation, pipeline, states.cache_mode)
    asynchronous = runner.async_scheduling(launch, geometry, speculation, version, states.cache_mode)
    limit = lengths.draft_limit(speculation, version, release)
    if limit is not None and limit < max_model_len:
        max_model_len = limit
        cause = "lowered to what the draft takes: on the V2 runner speculation cannot be skipped"
        steps.append(_length_step(max_model_len, cause, "--speculative-config"))
    ranks.check_microbatches(launch)
    attention.check_host_rows(launch, indexes=checkpoint.config.get("index_topk") is not None)
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
        quantization_method=method,
        expert_parallel=bool(given.value(launch, "enable_expert_parallel")),
        shards_hidden_states=bool(given.value(launch, "enable_hc_sp")),
        batch_invariant=launch.environment.get("VLLM_BATCH_INVARIANT", "0") not in ("", "0"),
        decode_context_parallel=context.decode,
        prefill_context_parallel=context.prefill,
        use_mla=geometry.use_mla,
        cache_layout_wish=launch.environment.get("VLLM_KV_CACHE_LAYOUT"),
        pipeline_partition=launch.environment.get("VLLM_PP_LAYER_PARTITION"),
        speculation=speculation,
        state=states,
        steps=tuple(steps),
    )


def check_options(checkpoint: Checkpoint, launch: Launch) -> None:
    """Check what can be checked of the options before the model's layers are known. Raises StartupStops."""
    cache.requested_dtype(launch)
    bounds.check(launch, bounds.MODEL_BOUNDS)
    length, _ = lengths.max_model_len(checkpoint, launch)
    quantisation.verify(checkpoint, launch)
    bounds.check_length(launch, length)
    batch.check_features(launch)
    connectors.check(launch)
    bounds.check(launch, bounds.ENGINE_BOUNDS)
    ranks.check_parallel(launch)
    context_parallel.sizes(launch)
    bounds.check(launch, bounds.SCHEDULER_BOUNDS)


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
