"""The levers of a launch: what can be changed about it, one option at a time, and in which order it is worth trying.

A lever yields its attempts from the one that changes least to the one that changes most; the search keeps the first
that starts. A lever has nothing to try where it cannot matter to the failure at hand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kvplan.engine.facade import is_quantised
from kvplan.engine.failures import (
    BlockExceedsBatch,
    ContextTooLong,
    NoRoomForDraft,
    PoolTooSmall,
    RemoteCodeNeeded,
    TooFewGpus,
)
from kvplan.engine.values import Plan, Stage
from kvplan.launch.changing import Change
from kvplan.launch.options import choices_of
from kvplan.releases import KNOWN

OF_THE_MODEL = frozenset(
    {"model", "tokenizer", "hf_overrides", "quantization", "dtype", "runner", "convert", "model_impl", "load_format"}
)
"""Options that say which model is served: dropping one serves something else."""
WANTED = frozenset(
    {"kv_cache_dtype", "kv_cache_dtype_skip_layers", "speculative_config", "kv_transfer_config", "enable_lora"}
)
"""Options whose effect is what somebody wanted: dropped last."""
BY_OTHER_LEVERS = frozenset(
    {"tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "trust_remote_code", "max_model_len"}
)
PLAIN_BACKENDS = ("FLASH_ATTN", "FLASHINFER", "TRITON_ATTN", "FLEX_ATTENTION")
LATENT_BACKENDS = (
    *("FLASH_ATTN_MLA", "FLASHMLA", "FLASHINFER_MLA", "CUTLASS_MLA", "TRITON_MLA"),
    *("FLASHMLA_SPARSE", "FLASHINFER_MLA_SPARSE", "FLASH_ATTN_MLA_SPARSE"),
)
LAYER_STAGES = frozenset(
    {
        *(Stage.CACHE_DTYPE, Stage.SKIP_LIST, Stage.BACKEND, Stage.LAYERS, Stage.BLOCK_SIZE, Stage.SPECS),
        *(Stage.GROUPING, Stage.KERNEL_BLOCK_SIZE, Stage.KV_CACHE_VIEW, Stage.CAPACITY),
    }
)
"""Stages at which cache dtype, skip list, backend and block size can matter."""


@dataclass(frozen=True, slots=True)
class Lever:
    """One way of changing a launch."""

    name: str
    burden: int
    """How much is given up when it is used, from 0 (nothing that anybody asked for) to 9."""
    attempts: Callable[[Plan], Iterator[Change]]


def _set(**values: Any) -> Change:
    return Change(values=tuple(values.items()))


def _stages(plan: Plan) -> frozenset[Stage]:
    return frozenset(error.stage for error in plan.errors)


def _given(plan: Plan) -> tuple[str, ...]:
    """Options that somebody set and that can be left out, as they were first written."""
    return tuple(name for name in plan.launch.settings if name not in OF_THE_MODEL | BY_OTHER_LEVERS)


def _dropped(wanted: bool) -> Callable[[Plan], Iterator[Change]]:
    def attempts(plan: Plan) -> Iterator[Change]:
        refused = dict.fromkeys(one.option for one in plan.launch.refusals if one.option is not None)
        names = [name for name in _given(plan) if (name in WANTED) is wanted]
        for name in names:
            yield Change(without=(name,))
        for flag in () if wanted else refused:
            yield Change(without=(flag,))

    return attempts


def batched_tokens(plan: Plan) -> Iterator[Change]:
    """Fewer tokens a step: windows and states reserve fewer blocks, and a forward pass takes less."""
    settings = plan.settings
    if settings is None or Stage.CAPACITY not in _stages(plan):
        return
    for tokens in (16_384, 8_192, 4_096, 2_048, 1_024, 512):
        if tokens < settings.max_num_batched_tokens:
            yield _set(max_num_batched_tokens=tokens)


def more_batched_tokens(plan: Plan) -> Iterator[Change]:
    """As many tokens a step as a block has, or as drafts take."""
    for _, block in plan.failures(BlockExceedsBatch):
        yield _set(max_num_batched_tokens=block.block_size)
    for _, room in plan.failures(NoRoomForDraft):
        yield _set(max_num_batched_tokens=room.batched_tokens + room.slots)


def sequences(plan: Plan) -> Iterator[Change]:
    """Fewer requests at a time: first as many as there are blocks, where states want one each."""
    settings, capacity = plan.settings, plan.capacity
    if settings is None:
        return
    if capacity is not None and capacity.num_blocks and capacity.num_blocks < settings.max_num_seqs:
        yield _set(max_num_seqs=capacity.num_blocks)
    for count in (256, 128, 64, 32, 16):
        if count < settings.max_num_seqs and (capacity is None or count < (capacity.num_blocks or count + 1)):
            yield _set(max_num_seqs=count)


def synchronous(plan: Plan) -> Iterator[Change]:
    """One batch in flight instead of two."""
    if plan.settings is not None and plan.settings.async_scheduling:
        yield _set(async_scheduling=False)


def prefix_caching(plan: Plan) -> Iterator[Change]:
    """No prefix cache: states are then kept once a request."""
    if plan.settings is not None and plan.settings.prefix_caching:
        yield _set(enable_prefix_caching=False)


def with_prefix_caching(plan: Plan) -> Iterator[Change]:
    """The prefix cache on, which some options of states are for."""
    if plan.settings is None or not plan.settings.prefix_caching:
        yield _set(enable_prefix_caching=True)


def expert_parallel(plan: Plan) -> Iterator[Change]:
    """Experts spread over the ranks, which their balancing is for."""
    if plan.geometry is not None and plan.geometry.is_moe and not plan.launch.get("enable_expert_parallel"):
        yield _set(enable_expert_parallel=True)


def compute_dtype(plan: Plan) -> Iterator[Change]:
    """Another dtype to compute in, where one was asked for or the checkpoint's quantisation wants another."""
    for dtype in ("auto", "bfloat16", "float16"):
        if dtype != (plan.launch.get("dtype") or "auto") and _stages(plan) & {Stage.OPTIONS, Stage.CACHE_DTYPE}:
            yield _set(dtype=dtype)


def remote_code(plan: Plan) -> Iterator[Change]:
    """The repository's own code, which whoever launches has to trust."""
    if any(True for _ in plan.failures(RemoteCodeNeeded)):
        yield _set(trust_remote_code=True)


def environment(plan: Plan) -> Iterator[Change]:
    """Without one of the environment variables that were given."""
    for name in plan.launch.environment:
        yield Change(unset=(name,))


def long_context(plan: Plan) -> Iterator[Change]:
    """Positions beyond those that the model was made for, on the operator's word that they work."""
    if any(True for _ in plan.failures(ContextTooLong)):
        yield Change(environment=(("VLLM_ALLOW_LONG_MAX_MODEL_LEN", "1"),))


def more_gpus(plan: Plan) -> Iterator[Change]:
    """As many GPUs as there are ranks."""
    for _, facts in plan.failures(TooFewGpus):
        yield Change(gpus=facts.ranks)


def state_mode(plan: Plan) -> Iterator[Change]:
    """Fewer states a request."""
    if plan.settings is None or plan.settings.state_mode is None:
        return
    for mode in choices_of("mamba_cache_mode", plan.release) or ():
        if mode != plan.settings.state_mode:
            yield _set(mamba_cache_mode=mode)


def cache_dtype(plan: Plan) -> Iterator[Change]:
    """The common 8-bit dtypes, then the model's own."""
    if not _stages(plan) & LAYER_STAGES:
        return
    accepted = choices_of("kv_cache_dtype", plan.release) or ("auto", "fp8")
    now = plan.launch.get("kv_cache_dtype") or "auto"
    for dtype in ("fp8", "fp8_e4m3", "fp8_e5m2"):
        if dtype in accepted and dtype != now:
            yield _set(kv_cache_dtype=dtype)


def model_dtype(plan: Plan) -> Iterator[Change]:
    """A cache in the model's own dtype, where something else was asked for or follows from the checkpoint."""
    if plan.settings is None or not _stages(plan) & LAYER_STAGES:
        return
    if is_quantised(plan.settings.cache_dtype_after_load):
        dtype = "auto" if plan.launch.get("kv_cache_dtype") not in (None, "auto") else plan.settings.model_dtype
        yield _set(kv_cache_dtype=dtype)


def skip_list(plan: Plan) -> Iterator[Change]:
    """Layers left unquantised: the draft's beside those given, the draft's alone, the windows, the full ones."""
    if not plan.skip.tokens and not is_quantised(plan.launch.get("kv_cache_dtype")):
        return
    draft = tuple(layer.index for layer in plan.layers if layer.role.value == "draft")
    full = tuple(layer.index for layer in plan.layers if layer.role.value == "attention" and not layer.sliding_window)
    sliding = tuple(layer.index for layer in plan.layers if layer.role.value == "attention" and layer.sliding_window)
    tried: dict[tuple[str, ...], None] = {plan.skip.tokens: None, (): None}
    for wanted in (
        (*plan.skip.tokens, *map(str, draft)),
        tuple(map(str, draft)),
        tuple(map(str, full)) if sliding else (),
        tuple(map(str, sliding)) if full else (),
    ):
        listed = tuple(dict.fromkeys(wanted))
        if listed not in tried:
            tried[listed] = None
            yield _set(kv_cache_dtype_skip_layers=list(listed))


def backend(plan: Plan) -> Iterator[Change]:
    """Another attention backend."""
    if plan.geometry is None or not _stages(plan) & LAYER_STAGES - {Stage.CAPACITY}:
        return
    for name in LATENT_BACKENDS if plan.geometry.use_mla else PLAIN_BACKENDS:
        if name != plan.launch.get("attention_backend"):
            yield _set(attention_backend=name)


def block_size(plan: Plan) -> Iterator[Change]:
    """Another block size."""
    stages = {Stage.BACKEND, Stage.BLOCK_SIZE, Stage.SPECS, Stage.KERNEL_BLOCK_SIZE, Stage.KV_CACHE_VIEW, Stage.OPTIONS}
    if not _stages(plan) & (stages | {Stage.GROUPING, Stage.PARALLEL}):
        return
    for size in (16, 32, 64, 128, 256):
        if size != plan.launch.get("block_size"):
            yield _set(block_size=size)


def hybrid_manager(plan: Plan) -> Iterator[Change]:
    """The other way of keeping layers of several kinds."""
    if plan.settings is not None:
        yield _set(disable_hybrid_kv_cache_manager=not plan.settings.hybrid_manager_disabled)


def context_length(plan: Plan) -> Iterator[Change]:
    """The longest context that fits, or that the model takes."""
    lengths = [facts.longest_request_tokens for _, facts in plan.failures(PoolTooSmall)]
    lengths += [facts.derived for _, facts in plan.failures(ContextTooLong)]
    now = plan.launch.get("max_model_len")
    for length in lengths:
        if length > 0 and (not isinstance(now, int) or now < 0 or length < now):
            yield _set(max_model_len=length)


def tensor_parallel(plan: Plan) -> Iterator[Change]:
    """Another number of ranks: the smallest larger one first where memory is short, else the nearest."""
    launch = plan.launch
    now = launch.get("tensor_parallel_size") or 1
    others = (launch.get("pipeline_parallel_size") or 1) * (launch.get("prefill_context_parallel_size") or 1)
    count = launch.hardware.count
    for ranks in sorted((1, 2, 3, 4, 5, 6, 7, 8, 16, 32), key=lambda each: (each < now, abs(each - now))):
        if ranks != now and not (ranks < now and _stages(plan) <= {Stage.CAPACITY}):
            needed = ranks * others
            more = needed if count is not None and needed > count else None
            yield Change(values=(("tensor_parallel_size", ranks),), gpus=more)


def pipeline_parallel(plan: Plan) -> Iterator[Change]:
    """One pipeline stage."""
    if (plan.launch.get("pipeline_parallel_size") or 1) > 1:
        yield _set(pipeline_parallel_size=1)


def context_parallel(plan: Plan) -> Iterator[Change]:
    """Another share of the tokens for each rank."""
    now = plan.launch.get("decode_context_parallel_size") or 1
    ranks = plan.launch.get("tensor_parallel_size") or 1
    for size in (2, 4, 8):
        if size != now and ranks % size == 0 and ranks > 1:
            yield _set(decode_context_parallel_size=size)


def draft_tokens(plan: Plan) -> Iterator[Change]:
    """Fewer tokens drafted, down to one."""
    config = plan.launch.get("speculative_config")
    if not isinstance(config, dict):
        return
    tokens = config.get("num_speculative_tokens")
    for fewer in range((tokens if isinstance(tokens, int) else 1) - 1, 0, -1):
        yield _set(speculative_config={**config, "num_speculative_tokens": fewer})


def later_release(plan: Plan) -> Iterator[Change]:
    """The nearest later release."""
    yield from _releases(KNOWN[KNOWN.index(plan.release.acts_as) + 1 :])


def earlier_release(plan: Plan) -> Iterator[Change]:
    """The nearest earlier release."""
    yield from _releases(KNOWN[: KNOWN.index(plan.release.acts_as)][::-1])


def _releases(names: Sequence[str]) -> Iterator[Change]:
    for name in names:
        yield Change(release=name)


LEVERS: tuple[Lever, ...] = (
    Lever("batched tokens", 0, batched_tokens),
    Lever("more batched tokens", 0, more_batched_tokens),
    Lever("an option that was given", 1, _dropped(wanted=False)),
    Lever("environment", 1, environment),
    Lever("remote code", 1, remote_code),
    Lever("hybrid manager", 1, hybrid_manager),
    Lever("block size", 2, block_size),
    Lever("backend", 2, backend),
    Lever("sequences", 2, sequences),
    Lever("draft tokens", 2, draft_tokens),
    Lever("skip list", 2, skip_list),
    Lever("expert parallelism", 2, expert_parallel),
    Lever("compute dtype", 3, compute_dtype),
    Lever("with prefix caching", 3, with_prefix_caching),
    Lever("async scheduling", 3, synchronous),
    Lever("states", 3, state_mode),
    Lever("prefix caching", 3, prefix_caching),
    Lever("cache dtype", 3, cache_dtype),
    Lever("later release", 4, later_release),
    Lever("context length", 4, context_length),
    Lever("pipeline stages", 4, pipeline_parallel),
    Lever("more GPUs", 5, more_gpus),
    Lever("decode context parallelism", 5, context_parallel),
    Lever("tensor parallelism", 5, tensor_parallel),
    Lever("the model's own cache dtype", 6, model_dtype),
    Lever("long context", 6, long_context),
    Lever("earlier release", 6, earlier_release),
    Lever("an option that was wanted", 7, _dropped(wanted=True)),
)
"""All levers; those with the same burden in the order in which they are tried."""
