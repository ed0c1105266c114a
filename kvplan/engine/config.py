"""Stage 1: the options become an engine config, with vLLM's own defaults and derivations.

Sources: `engine/arg_utils.py`, `config/model.py`, `config/scheduler.py` and `config/vllm.py` of each release.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kvplan.checkpoint.values import Checkpoint
from kvplan.engine import boundary, context_parallel, state_options
from kvplan.engine.checks import backend_names, bounds, executors, quantisation
from kvplan.engine.dtypes import known
from kvplan.engine.models.geometry import ModelGeometry
from kvplan.engine.speculation import running
from kvplan.engine.speculation.values import Speculation
from kvplan.engine.state_options import NO_STATES, StateOptions
from kvplan.engine.stop import stop
from kvplan.engine.values import Stage, Step
from kvplan.history import capacity, parallel, state
from kvplan.history import speculation as speculative
from kvplan.launch.options import default_of
from kvplan.launch.values import Hardware, Launch
from kvplan.releases import Release

GIB = 1 << 30

_DTYPE_ALIASES = {"half": "float16", "float": "float32"}
_NO_FLOAT16 = frozenset({"gemma2", "gemma3", "gemma3_text", "plamo2", "glm4"})
"""Model types that vLLM keeps from running in float16 (numerical instability)."""

_LENGTH_KEYS = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "model_max_length",
    "max_target_positions",
    "max_sequence_length",
    "max_seq_length",
    "seq_len",
)
"""Config fields that bound the context length; the smallest counts, `model_max_length` above all."""

_UNSCALED_ROPE = frozenset({"su", "longrope", "llama3"})
_TABLE_ONLY_ROPE = frozenset({"default", "linear", "llama3", "ntk", "proportional"})
"""Rope types for which the context length only sizes the table of sines."""
_ALSO_UNSCALED_ROPE = frozenset({"yarn", "deepseek_yarn", "deepseek_llama_scaling"})

ALLOW_CHUNKS = "VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE"
BATCHED_DP_TOKENS = 256
"""Tokens a batch where experts work on batches of fixed size."""
BATCHED_ALL2ALL = ("deepep_low_latency", "nixl_ep")


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
    prefix_caching: bool
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
    flash_attn_version: int | None
    quantization: str | None
    quantization_method: str | None
    """The method the run ends up with: the checkpoint's, or what claims it."""
    expert_parallel: bool
    kv_connector: bool
    batch_invariant: bool
    decode_context_parallel: int
    prefill_context_parallel: int
    cache_layout_wish: str | None
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
    """The engine config of `launch`. Raises StartupStops where vLLM refuses, InputError where kvplan must."""
    release, hardware = launch.release, launch.hardware
    steps: list[Step] = []
    cache_dtype = _cache_dtype(launch)
    skip_tokens, boundary_steps = _skip_tokens(checkpoint, launch, geometry, cache_dtype)
    steps += boundary_steps
    model_dtype = _model_dtype(checkpoint, launch, geometry)
    steps.append(Step(Stage.OPTIONS, "model.dtype", model_dtype, _dtype_cause(launch, checkpoint), option="--dtype"))

    bounds.check(launch, bounds.MODEL_BOUNDS)
    max_model_len, length_cause = _max_model_len(checkpoint, launch)
    steps.append(Step(Stage.OPTIONS, "model.max_model_len", str(max_model_len), length_cause, option="--max-model-len"))

    method = quantisation.verify(checkpoint, launch)
    bounds.check_length(launch, max_model_len)
    bounds.check(launch, bounds.ENGINE_BOUNDS)
    bounds.check_data_parallel(launch)
    bounds.check_tensor_division(launch)
    tensor, pipeline = _positive(launch, "tensor_parallel_size"), _positive(launch, "pipeline_parallel_size")
    context = context_parallel.sizes(launch)
    bounds.check_gpu_count(launch, tensor * pipeline * context.prefill)
    batched, seqs = _batch_sizes(launch, geometry, max_model_len)
    bounds.check(launch, bounds.SCHEDULER_BOUNDS)
    running.check_batch(speculation, release, batched, seqs)
    steps.append(
        Step(
            Stage.OPTIONS,
            "scheduler.max_num_batched_tokens",
            str(batched),
            _batch_cause(launch, hardware),
            option="--max-num-batched-tokens",
        )
    )
    prefix_caching = _prefix_caching(launch, geometry)
    states = state_options.resolve(
        checkpoint,
        launch,
        geometry,
        prefix_caching=prefix_caching,
        max_model_len=max_model_len,
        user_block_size=_value(launch, "block_size"),
        speculative_tokens=0 if speculation is None else speculation.tokens,
    )
    steps += states.steps
    runner = _model_runner(launch, checkpoint, geometry, speculation, pipeline)
    async_scheduling = _async_scheduling(launch, geometry, speculation, runner, states.cache_mode)
    limit = _draft_limit(speculation, runner, release)
    if limit is not None and limit < max_model_len:
        max_model_len = limit
        cause = "lowered to what the draft takes: on the V2 runner speculation cannot be skipped"
        steps.append(Step(Stage.OPTIONS, "model.max_model_len", str(limit), cause, option="--speculative-config"))
    concurrent = _concurrent_batches(async_scheduling, runner, pipeline)
    steps.append(
        Step(
            Stage.OPTIONS,
            "engine.max_concurrent_batches",
            str(concurrent),
            f"async scheduling {'on' if async_scheduling else 'off'}, {runner} runner, {pipeline} pipeline stages",
        )
    )
    return EngineConfig(
        release=release,
        hardware=hardware,
        model_dtype=model_dtype,
        requested_cache_dtype=cache_dtype,
        skip_tokens=skip_tokens,
        user_block_size=_value(launch, "block_size"),
        max_model_len=max_model_len,
        auto_fit=_value(launch, "max_model_len") in (-1, "auto"),
        max_num_batched_tokens=batched,
        max_num_seqs=seqs,
        prefix_caching=prefix_caching,
        async_scheduling=async_scheduling,
        model_runner=runner,
        max_concurrent_batches=concurrent,
        hybrid_manager_disabled=_hybrid_manager_disabled(launch, checkpoint),
        sliding_window=geometry.model_sliding_window,
        tensor_parallel=tensor,
        pipeline_parallel=pipeline,
        data_parallel=_positive(launch, "data_parallel_size"),
        gpu_memory_utilization=float(_value(launch, "gpu_memory_utilization")),
        num_gpu_blocks_override=_value(launch, "num_gpu_blocks_override"),
        kv_cache_memory_bytes=_value(launch, "kv_cache_memory_bytes"),
        attention_backend=_attention_option(launch, "backend"),
        flash_attn_version=_flash_attn_version(launch, cache_dtype),
        quantization=_value(launch, "quantization"),
        quantization_method=method,
        expert_parallel=bool(_value(launch, "enable_expert_parallel")),
        kv_connector=_value(launch, "kv_transfer_config") is not None,
        batch_invariant=launch.environment.get("VLLM_BATCH_INVARIANT", "0") not in ("", "0"),
        decode_context_parallel=context.decode,
        prefill_context_parallel=context.prefill,
        cache_layout_wish=launch.environment.get("VLLM_KV_CACHE_LAYOUT"),
        pipeline_partition=launch.environment.get("VLLM_PP_LAYER_PARTITION"),
        speculation=speculation,
        state=states,
        steps=tuple(steps),
    )


def _speculative_tokens(launch: Launch) -> int:
    """`num_speculative_tokens` of the speculative config, 0 without one."""
    wished = launch.get("speculative_config")
    tokens = wished.get("num_speculative_tokens") if isinstance(wished, Mapping) else None
    return tokens if isinstance(tokens, int) and not isinstance(tokens, bool) else 0


def _value(launch: Launch, name: str) -> Any:
    given = launch.get(name)
    return default_of(name, launch.release) if given is None else given


def _positive(launch: Launch, name: str) -> int:
    value = _value(launch, name)
    size = 1 if value is None else int(value)
    if size < 1:
        flag = "--" + name.replace("_", "-")
        raise stop(
            Stage.OPTIONS,
            "invalid_value",
            f"{flag} must be at least 1, got {size}",
            facts={"option": flag, "value": size},
        )
    return size


def _cache_dtype(launch: Launch) -> str:
    value = str(_value(launch, "kv_cache_dtype"))
    accepted = known(launch.release)
    if value not in accepted:
        raise stop(
            Stage.OPTIONS,
            "invalid_value",
            f"Invalid kv_cache_dtype: {value!r}. Valid values are: {', '.join(accepted)}",
            exception="ValidationError",
            facts={"option": "--kv-cache-dtype", "value": value, "accepted": accepted},
        )
    return value


def _skip_tokens(
    checkpoint: Checkpoint, launch: Launch, geometry: ModelGeometry, cache_dtype: str
) -> tuple[tuple[str, ...], list[Step]]:
    """The skip list, with the layers that the cache dtype itself adds, and the step that says so."""
    given = tuple(_value(launch, "kv_cache_dtype_skip_layers") or ())
    if not boundary.applies(cache_dtype):
        return given, []
    tokens = boundary.skip_tokens(given, cache_dtype, checkpoint, is_hybrid=geometry.is_hybrid, release=launch.release)
    added = [token for token in tokens if token not in given]
    if not added:
        return tokens, []
    why = f"{cache_dtype} keeps the layers at both ends of the model in the model's dtype"
    step = Step(
        Stage.OPTIONS,
        "cache.skip_list",
        " ".join(tokens),
        why,
        layers=tuple(sorted(map(int, added))),
        option="--kv-cache-dtype",
    )
    return tokens, [step]


def _flash_attn_version(launch: Launch, cache_dtype: str) -> int | None:
    """The FlashAttention version that the launch asks for, or that its cache dtype pins."""
    asked: int | None = _attention_option(launch, "flash_attn_version")
    return boundary.FLASH_ATTENTION if boundary.applies(cache_dtype) else asked


def _config_dtype(checkpoint: Checkpoint) -> str:
    """The dtype the checkpoint declares; vLLM takes float32 where it declares none."""
    for source in (checkpoint.config, checkpoint.text_config):
        for key in ("dtype", "torch_dtype"):
            value = source.get(key)
            if isinstance(value, str) and value:
                return value.removeprefix("torch.")
    return "float32"


def _model_dtype(checkpoint: Checkpoint, launch: Launch, geometry: ModelGeometry) -> str:
    """`--dtype` resolved: `auto` takes the checkpoint's, float32 becomes the platform's preferred half type."""
    asked = str(_value(launch, "dtype")).lower()
    no_half = checkpoint.model_type in _NO_FLOAT16
    if asked != "auto":
        asked = _DTYPE_ALIASES.get(asked, asked)
        if asked == "float16" and no_half:
            raise stop(
                Stage.OPTIONS,
                "invalid_value",
                f"The model type {checkpoint.model_type!r} does not support float16.",
                exception="ValidationError",
                facts={"option": "--dtype", "value": asked, "accepted": ("bfloat16", "float32")},
            )
        return asked
    bf16 = launch.hardware.capability >= (8, 0)
    supported = [d for d in (["bfloat16"] if bf16 else []) + ["float16", "float32"] if d != "float16" or not no_half]
    preferred = "float16" if geometry.runner_type == "pooling" and "float16" in supported else supported[0]
    declared = _config_dtype(checkpoint)
    if declared == "float32":
        declared = preferred
    return declared if declared in supported else preferred


def _dtype_cause(launch: Launch, checkpoint: Checkpoint) -> str:
    asked = str(_value(launch, "dtype")).lower()
    if asked != "auto":
        return f"--dtype {asked}"
    return f"the checkpoint declares {_config_dtype(checkpoint)}; compute capability {launch.hardware.capability_text}"


def _rope_parameters(config: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The rope parameters of a config, one set a layer type where they differ by layer type."""
    parameters = config.get("rope_parameters") or config.get("rope_scaling")
    if not isinstance(parameters, Mapping):
        return
    nested = [value for value in parameters.values() if isinstance(value, Mapping)]
    if nested and "rope_type" not in parameters:
        yield from nested
    elif "rope_type" in parameters or "type" in parameters:
        yield parameters


def _derived_length(
    text: Mapping[str, Any], release: Release, disabled_window: int | None
) -> tuple[float | None, str | None]:
    """The context length the config allows, and the field that says so; (None, None) where none does."""
    lengths = [(text[key], key) for key in _LENGTH_KEYS if isinstance(text.get(key), (int, float)) and text[key]]
    derived: float | None = None
    key: str | None = None
    for length, name in lengths:
        if derived is None or length < derived:
            derived, key = length, name
    if text.get("model_max_length"):
        derived, key = text["model_max_length"], "model_max_length"
    if disabled_window is not None and (derived is None or disabled_window < derived):
        derived, key = disabled_window, "sliding_window"
    if derived is None:
        return None, None
    if "gemma3" in str(text.get("model_type", "")):
        return derived, key
    yarn_in_config = release.has(capacity.YARN_LENGTH_IN_CONFIG)
    unscaled = _UNSCALED_ROPE | _ALSO_UNSCALED_ROPE if yarn_in_config else _UNSCALED_ROPE
    factor: float | None = 1.0
    for rope in _rope_parameters(text):
        rope_type = rope.get("rope_type", rope.get("type"))
        if rope_type in unscaled:
            continue
        factor = rope.get("factor", factor)
        if rope_type == "yarn" and not yarn_in_config and rope.get("original_max_position_embeddings"):
            derived = rope["original_max_position_embeddings"]
    return derived * (1.0 if factor is None else factor), key


def _max_model_len(checkpoint: Checkpoint, launch: Launch) -> tuple[int, str]:
    """`--max-model-len` resolved and checked against what the config allows, with the reason.

    An automatic length (-1) starts from the derived one; capacity shortens it later.
    """
    text = checkpoint.text_config
    asked = _value(launch, "max_model_len")
    asked = -1 if asked == "auto" else asked
    window = text.get("sliding_window") if _value(launch, "disable_sliding_window") else None
    derived, key = _derived_length(text, launch.release, window if isinstance(window, int) and window else None)
    if derived is None:
        if asked is not None and asked != -1:
            return int(asked), f"--max-model-len {asked}"
        derived, key = 2048, "no length field in the config"
    if asked is None or asked == -1:
        if any(rope.get("rope_type") == "longrope" for rope in _rope_parameters(text)):
            original = text.get("original_max_position_embeddings") or derived
            return int(original), "LongRoPE models default to original_max_position_embeddings"
        return int(derived), f"derived from the config ({key})"
    if asked > derived:
        limit = text.get("model_max_length")
        if (limit is None or asked > limit) and launch.environment.get("VLLM_ALLOW_LONG_MAX_MODEL_LEN", "0") in (
            "",
            "0",
        ):
            raise stop(
                Stage.OPTIONS,
                "max_model_len_too_long",
                f"User-specified max_model_len ({asked}) is greater than the derived max_model_len "
                f"({key}={derived:g} or model_max_length={limit} in model's config.json). To allow overriding this "
                "maximum, set the env var VLLM_ALLOW_LONG_MAX_MODEL_LEN=1.",
                exception="ValidationError",
                facts={"option": "--max-model-len", "asked": int(asked), "derived": int(derived), "field": key},
            )
    return int(asked), f"--max-model-len {asked}"


def _draft_limit(speculation: Speculation | None, runner: str, release: Release) -> int | None:
    """The longest request that the draft takes, where that bounds the target's (0.33.0, V2 runner).

    Drafts that share the target's positions are stretched where their rope only sizes a table.
    """
    if speculation is None or speculation.checkpoint is None or runner != "V2":
        return None
    if not release.has(speculative.LENGTH_LIMITED_BY_DRAFT):
        return None
    text = speculation.checkpoint.text_config
    ropes = [str(rope.get("rope_type", rope.get("type", "default"))) for rope in _rope_parameters(text)]
    if speculation.method != "draft_model" and all(rope in _TABLE_ONLY_ROPE for rope in ropes):
        return None
    if speculation.max_model_len is not None:
        return speculation.max_model_len
    derived, _ = _derived_length(text, release, None)
    return None if derived is None else int(derived)


def _large_gpu_tier(hardware: Hardware, release: Release) -> int:
    """0 small, 1 for 70 GiB and more (A100 excepted), 2 for 160 GiB and more where the release knows that tier."""
    if hardware.memory_bytes >= 160 * GIB and release.has(capacity.BATCHED_TOKENS_16K_ON_LARGE_GPUS):
        return 2
    gb10 = hardware.capability == (12, 1) and release.has(capacity.GB10_KEEPS_SMALL_BATCH_DEFAULTS)
    if hardware.memory_bytes >= 70 * GIB and "a100" not in hardware.device_name.lower() and not gb10:
        return 1
    return 0


def _batched_dp_moe(launch: Launch) -> bool:
    """Whether experts work on small fixed batches: data and expert parallelism over a batched all-to-all backend."""
    if not launch.release.has(parallel.BATCHED_DP_TAKES_SMALL_BATCHES):
        return False
    batched = _value(launch, "all2all_backend") in BATCHED_ALL2ALL
    return batched and bool(launch.get("enable_expert_parallel")) and (launch.get("data_parallel_size") or 1) > 1


def _batch_cause(launch: Launch, hardware: Hardware) -> str:
    if launch.get("max_num_batched_tokens") is not None:
        return f"--max-num-batched-tokens {launch.get('max_num_batched_tokens')}"
    return f"default of the API server on {hardware.name} ({hardware.memory_bytes / GIB:.0f} GiB)"


def _batch_sizes(launch: Launch, geometry: ModelGeometry, max_model_len: int) -> tuple[int, int]:
    """(max_num_batched_tokens, max_num_seqs): defaults by GPU memory and by who starts the engine, capped by each
    other."""
    release = launch.release
    tier = _large_gpu_tier(launch.hardware, release)
    asked_tokens, asked_seqs = launch.get("max_num_batched_tokens"), launch.get("max_num_seqs")
    usual = (8192, 16384, 16384) if launch.offline else (2048, 8192, 16384)
    default = BATCHED_DP_TOKENS if _batched_dp_moe(launch) else usual[tier]
    tokens = int(asked_tokens) if asked_tokens is not None else default
    seqs = int(asked_seqs) if asked_seqs is not None else (256, 1024, 1024)[tier]
    chunked = _value(launch, "enable_chunked_prefill")
    chunked = geometry.prefills_in_parts if chunked is None else bool(chunked)
    if launch.get("performance_mode") == "throughput":
        tokens *= 2 if asked_tokens is None else 1
        seqs *= 2 if asked_seqs is None else 1
    if asked_tokens is None:
        if not chunked:
            tokens = max(max_model_len, tokens)
        if release.has(capacity.MM_PREFIX_RAISES_BATCHED_TOKENS) and geometry.mm_prefix_item_tokens is not None:
            tokens = max(tokens, geometry.mm_prefix_item_tokens)
        tokens = min(seqs * max_model_len, tokens)
    if asked_seqs is None:
        seqs = min(seqs, tokens)
    bounds.check_batch_sizes(tokens, seqs)
    if tokens < max_model_len and not (chunked and geometry.attention != "encoder_decoder"):
        raise stop(
            Stage.OPTIONS,
            "invalid_value",
            f"max_num_batched_tokens ({tokens}) is smaller than max_model_len ({max_model_len}).",
            exception="ValidationError",
            facts={"option": "--max-num-batched-tokens", "value": tokens},
        )
    if tokens < seqs:
        raise stop(
            Stage.OPTIONS,
            "invalid_value",
            f"max_num_batched_tokens ({tokens}) must be greater than or equal to max_num_seqs ({seqs}).",
            exception="ValidationError",
            facts={"option": "--max-num-batched-tokens", "value": tokens},
        )
    return tokens, seqs


_V2_LISTED: dict[str, frozenset[str]] = {
    "0.22.1": frozenset({"Qwen3ForCausalLM"}),
    "0.23.0": frozenset({"Qwen3ForCausalLM", "LlamaForCausalLM", "MistralForCausalLM"}),
    "0.24.0": frozenset(
        {
            "Qwen3ForCausalLM",
            "DeepseekV2ForCausalLM",
            "Qwen2MoeForCausalLM",
            "GraniteMoeForCausalLM",
            "LlamaForCausalLM",
            "MistralForCausalLM",
        }
    ),
    "0.25.1": frozenset({"DeepseekV2ForCausalLM", "Qwen2MoeForCausalLM", "GraniteMoeForCausalLM"}),
    "0.26.0": frozenset(
        {
            "DeepseekV2ForCausalLM",
            "Qwen2MoeForCausalLM",
            "GraniteMoeForCausalLM",
            "InklingForCausalLM",
            "InklingForConditionalGeneration",
            "LongcatFlashNgramForCausalLM",
        }
    ),
    "0.27.1": frozenset(
        {
            "DeepseekV2ForCausalLM",
            "Qwen2MoeForCausalLM",
            "GraniteMoeForCausalLM",
            "InklingForCausalLM",
            "InklingForConditionalGeneration",
            "KimiK3ForConditionalGeneration",
            "LongcatFlashNgramForCausalLM",
        }
    ),
    "0.28.0": frozenset(
        {
            "DeepseekV2ForCausalLM",
            "DeepseekV4ForCausalLM",
            "Qwen2MoeForCausalLM",
            "GraniteMoeForCausalLM",
            "InklingForCausalLM",
            "InklingForConditionalGeneration",
            "KimiK3ForConditionalGeneration",
            "LongcatFlashNgramForCausalLM",
        }
    ),
}
"""Architectures that a release runs on the V2 runner though the general rule would not; a row holds until the next."""


def _listed_for_v2(release: Release, architectures: tuple[str, ...]) -> bool:
    listed: frozenset[str] = frozenset()
    for since, names in _V2_LISTED.items():
        if release.within(since, None):
            listed = names
    return any(name in listed for name in architectures)


def _model_runner(
    launch: Launch, checkpoint: Checkpoint, geometry: ModelGeometry, speculation: Speculation | None, pipeline: int
) -> str:
    """`V1` or `V2`: the environment decides, else the release's default for this model and its draft."""
    release = launch.release
    wish = launch.environment.get("VLLM_USE_V2_MODEL_RUNNER")
    if wish is not None:
        return "V2" if wish.strip().lower() in ("1", "true") else "V1"
    if running.forces_v2(speculation, release):
        return "V2"
    if running.keeps_v1(speculation, release, pipeline):
        return "V1"
    if (launch.get("prefill_context_parallel_size") or 1) > 1 and release.has(parallel.PCP_NEEDS_V2_RUNNER):
        return "V2"
    if release.has(capacity.V2_RUNNER_FOR_ALL):
        return "V2"
    if geometry.runner_type != "generate":
        return "V1"
    listed = _listed_for_v2(release, checkpoint.architectures)
    if release.has(capacity.V2_RUNNER_FOR_DENSE_MODELS):
        if (geometry.has_inner_state and not listed) or _value(launch, "kv_sharing_fast_prefill"):
            return "V1"
        return "V2" if listed or not geometry.is_moe else "V1"
    if release.has(capacity.V2_RUNNER_FOR_LISTED_MODELS) and listed:
        quantised = checkpoint.quantization is not None or launch.get("quantization") is not None
        if release.has(capacity.V2_RUNNER_LIST_ADMITS_MOE_AND_QUANTISED) or not (geometry.is_moe or quantised):
            return "V2"
    return "V1"


def _async_scheduling(
    launch: Launch, geometry: ModelGeometry, speculation: Speculation | None, runner: str, state_mode: str
) -> bool:
    """On unless switched off; pooling models, some speculation and executors without support go without, as did
    cached states."""
    asked = launch.get("async_scheduling")
    executor = launch.get("distributed_executor_backend")
    supported = executor != "ray" or executors.ray_schedules_asynchronously(launch)
    if asked and not supported:
        raise executors.refusal(str(executor), launch.release)
    hindrance = running.stops_async(speculation, launch.release, runner, asked=bool(asked))
    if state_mode != "none" and launch.release.has(state.CACHED_STATES_EXCLUDE_ASYNC):
        hindrance = "prefix caching for Mamba models"
    if asked is not None:
        if asked and hindrance is not None:
            raise stop(
                Stage.OPTIONS,
                "invalid_value",
                f"Async scheduling is not supported with {hindrance}.",
                exception="ValidationError",
                facts={"option": "--async-scheduling", "value": True, "accepted": ("False",)},
            )
        return bool(asked)
    return supported and geometry.runner_type == "generate" and hindrance is None


def _concurrent_batches(async_scheduling: bool, runner: str, pipeline: int) -> int:
    """Batches that may be in flight at once (`VllmConfig.max_concurrent_batches`)."""
    if async_scheduling:
        if runner == "V2":
            return pipeline + 1
        if pipeline <= 1:
            return 2
    return pipeline


def _prefix_caching(launch: Launch, geometry: ModelGeometry) -> bool:
    asked = launch.get("enable_prefix_caching")
    if geometry.never_shares_prefixes:
        return False
    if asked is not None:
        return bool(asked)
    return geometry.shares_prefixes and (
        not geometry.is_hybrid or launch.release.has(state.HYBRID_PREFIX_CACHING_BY_DEFAULT)
    )


def _hybrid_manager_disabled(launch: Launch, checkpoint: Checkpoint) -> bool:
    """Whether the hybrid KV cache manager is off, by flag or by what excludes it in this release."""
    release = launch.release
    cause = None
    chunks = checkpoint.text_config.get("attention_chunk_size") is not None
    allowed = launch.environment.get(ALLOW_CHUNKS, "1")
    if chunks and allowed.strip().lower() in ("", "0", "false"):
        cause = f"{ALLOW_CHUNKS}={allowed}"
    if release.has(capacity.EVENTS_DISABLE_HYBRID_MANAGER) and launch.get("kv_events_config") is not None:
        cause = "--kv-events-config"
    asked = launch.get("disable_hybrid_kv_cache_manager")
    if asked is None:
        connector = launch.get("kv_transfer_config") is not None
        return cause is not None or (connector and release.has(capacity.CONNECTOR_DISABLES_HYBRID_MANAGER))
    if asked is False and cause is not None:
        raise stop(
            Stage.OPTIONS,
            "hybrid_manager",
            "Hybrid KV cache manager was explicitly enabled but is not supported in this configuration.",
            exception="ValidationError",
            facts={"option": "--no-disable-hybrid-kv-cache-manager", "cause": cause},
        )
    return bool(asked)


def _attention_option(launch: Launch, key: str) -> Any:
    """A field of the attention config, from its own flag or from `--attention-config`."""
    config = launch.get("attention_config")
    nested = config.get(key) if isinstance(config, Mapping) else None
    if key == "backend":
        flag = launch.get("attention_backend")
        if flag is not None and nested is not None:
            raise stop(
                Stage.OPTIONS,
                "invalid_value",
                "attention_backend and attention_config.backend are mutually exclusive",
                facts={"option": "--attention-backend", "value": str(flag)},
            )
        asked = flag if flag is not None else nested
        backend_names.check(asked, launch.release)
        return asked
    return nested
