"""What the engine room hands on: the emulated start-up of one launch, and why each value is what it is.

Reports tell most of these values field by field, so the order of the fields is that of the JSON contract.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from kvplan.checkpoint.values import Checkpoint
from kvplan.engine.failures import Failure
from kvplan.engine.models.geometry import ModelGeometry, Role
from kvplan.launch.values import Launch
from kvplan.releases import Behaviour, Release

FailureKind = TypeVar("FailureKind", bound=Failure)


class Stage(StrEnum):
    """Where start-up can stop, in vLLM's own order."""

    OPTIONS = "options"
    CACHE_DTYPE = "cache_dtype"
    PARALLEL = "parallel"
    SKIP_LIST = "skip_list"
    BACKEND = "backend"
    LAYERS = "layers"
    BLOCK_SIZE = "block_size"
    SPECS = "specs"
    GROUPING = "grouping"
    CAPACITY = "capacity"
    KERNEL_BLOCK_SIZE = "kernel_block_size"
    KV_CACHE_VIEW = "kv_cache_view"
    CONNECTORS = "connectors"
    BUILDERS = "builders"
    FORWARD = "forward"
    GRAPHS = "graphs"
    SCHEDULER = "scheduler"


@dataclass(frozen=True, slots=True)
class StartupError:
    """The error at which start-up stops: where, which Python exception, and what it says."""

    stage: Stage
    type: str
    message: str
    facts: Failure
    """Which check failed and what it compared."""

    @property
    def code(self) -> str:
        """A stable name for the failing check (`no_backend`, `pool_too_small`, `view_mismatch`, …)."""
        return self.facts.code


@dataclass(frozen=True, slots=True)
class Step:
    """One link of the trace: `value` became `result` because of `cause`.

    `value` is a dotted name (`cache.dtype`, `cache.block_size`, `layer.cache_dtype`, `layer.backend`, …);
    `layers` names the decoder layers concerned, empty when it is about the whole launch.
    """

    stage: Stage
    value: str
    result: str
    cause: str
    layers: tuple[int, ...] = ()
    option: str | None = None
    """The option behind it, as a long flag."""
    behaviour: Behaviour | None = None
    """The history entry behind it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Skip:
    """The skip list: its tokens, which layers each reached, and what vLLM did with it."""

    tokens: tuple[str, ...] = ()
    matched_layers: tuple[int, ...] = ()
    """Decoder layers that some token names and whose layer class looks at the list."""
    unmatched_tokens: tuple[str, ...] = ()
    ignored_layers: tuple[int, ...] = ()
    """Decoder layers that some token names but whose layer class never looks at the list in this release."""
    canonicalised_layers: tuple[int, ...] = ()
    """Layers that were skipped and then got the packed dtype all the same."""
    matched_drafts: tuple[str, ...] = ()
    """Names of the draft's layers that some token reached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerPlan:
    """One cached layer as vLLM will allocate it. Sizes in bytes, block sizes in tokens, head sizes in elements."""

    name: str
    index: int
    role: Role
    rank: int
    spec: str
    backend: str | None
    cache_dtype: str | None
    """The layer's own cache dtype string, None for caches that have no such thing (indexers)."""
    storage_dtype: str | None
    """Dtype of the cache's elements, None for states (see `state_dtypes`)."""
    quant_mode: str | None
    """vLLM's KVQuantMode name; None in releases that have no such thing."""
    block_size: int
    num_kv_heads: int | None
    head_size: int | None
    head_size_v: int | None
    sliding_window: int | None
    page_bytes: int
    unpadded_page_bytes: int
    skipped: bool = False
    state_shapes: tuple[tuple[int, ...], ...] = ()
    """Shapes of the tensors of a state, on one rank; empty for layers that cache tokens."""
    state_dtypes: tuple[str, ...] = ()
    states_per_request: int | None = None
    """States one request keeps; None for layers that cache tokens, and where the state of every block is kept."""
    layer_class: str
    spec_block_size: int
    """Block size and page bytes as the layer asked for them, before pages were unified."""
    spec_page_bytes: int
    covered: bool = True
    """Whether conformance records cover this architecture in this release."""

    @property
    def bytes_per_token(self) -> float:
        """Bytes per token of this layer's cache, padding included; 0 for states, which do not grow with a request."""
        return 0.0 if self.states_per_request is not None else self.page_bytes / self.block_size


@dataclass(frozen=True, slots=True)
class SharedLayer:
    """A layer that reads another layer's cache and owns none."""

    name: str
    index: int
    shares_cache_of: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """One KV cache group: layers that share a block table."""

    layers: tuple[str, ...]
    spec: str
    block_size: int
    page_bytes: int
    """Bytes of one block of one layer; for a uniform-type group the sum over its layers."""
    kernel_block_size: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockSizeStep:
    """One change of the block size (tokens) on the way to the final one."""

    block_size: int
    cause: str
    """`default`, `user`, `backend`, `config_time_mla`, `skip_alignment`, `unification` (of some layers only), …"""
    text: str
    behaviour: Behaviour | None = None


@dataclass(frozen=True, slots=True)
class LengthFit:
    """What a request of one length, in tokens, takes on a GPU and how many fit at once, as the logged concurrency
    counts: with that length as max_model_len."""

    tokens: int
    request_bytes: int
    concurrency: float | None
    """None where the memory is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KindShare:
    """What the layers of one kind take of a request of max_model_len tokens on a GPU: blocks times their pages."""

    spec: str
    """vLLM's name for the kind."""
    indexer: bool
    sliding_window: int | None
    """Tokens of the window; of a FullAttentionSpec the window of the layer that it stands for."""
    layers: int
    request_bytes: int
    fixed_bytes: int
    """Of a long request, what does not grow with it."""
    bytes_per_token: float


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """What can be left for the cache on one GPU at most, in bytes, before activations and CUDA graphs."""

    gpu_bytes: int
    budget_bytes: int
    """What vLLM may use of the GPU (`--gpu-memory-utilization`)."""
    weight_bytes: int | None
    """The weights' share of it; None where their size is not known."""

    @property
    def available_bytes(self) -> int:
        """Bytes left for the cache, 0 at least; all of the budget where the size of the weights is not known."""
        return max(0, self.budget_bytes - (self.weight_bytes or 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """What fits. None where start-up stopped before and nothing could be computed independently."""

    available_bytes: int | None
    estimate: MemoryEstimate | None = None
    """What the GPU can give; None where the operator gave the figure, or named no GPU."""
    bytes_per_block: int | None
    num_blocks: int | None
    tokens: int | None
    """The figure of vLLM's log line `GPU KV cache size: N tokens`."""
    max_concurrency: float | None
    max_model_len: int
    longest_request_tokens: int | None
    """The longest max_model_len that passes vLLM's admission check (its own estimate), 0 if none does."""
    needed_bytes: int | None
    """Bytes that one request of max_model_len tokens needs, as the admission check counts."""
    fixed_bytes: int | None = None
    bytes_per_token: float | None = None
    """The need of one long request as a line: fixed_bytes + bytes_per_token × tokens."""
    log_lines: tuple[str, ...] = ()
    """vLLM's own log lines, as this release prints them."""
    lengths: tuple[LengthFit, ...] = ()
    """Requests of 8k, 32k and 128k tokens as far as the model takes them, and of max_model_len."""
    curve: tuple[tuple[int, float], ...] = ()
    """How many requests fit at once, as the logged concurrency counts, by their length in tokens: 1,024, twice that and
    so on, and max_model_len."""
    kinds: tuple[KindShare, ...] = ()
    unused_bytes: int = 0
    """Bytes of a request's blocks that no layer uses: blocks are as wide as the widest group of layers needs."""

    @property
    def estimated(self) -> bool:
        """Whether `available_bytes` is an estimate, on the high side, and with it all that follows from it: blocks,
        tokens, concurrency, longest request."""
        return self.estimate is not None and self.available_bytes is not None


@dataclass(frozen=True, slots=True)
class BackendChoice:
    """One backend decision and the layers it is for."""

    backend: str | None
    layers: tuple[int, ...]
    cache_dtype: str
    rejected: tuple[tuple[str, tuple[str, ...]], ...] = ()
    precluded_by_block_size: tuple[str, ...] = ()
    dtypes_with_backend: tuple[str, ...] = ()
    """Cache dtypes that would find a backend on this GPU; filled when none was found."""
    draft: bool = False
    """Whether it is for layers of the draft; `layers` then are the draft's own numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The engine's settings after vLLM's own defaults and derivations."""

    model_dtype: str
    requested_cache_dtype: str
    cache_dtype: str
    """After checkpoint, model and platform hooks: the launch-wide cache dtype that the layers start from."""
    cache_dtype_after_load: str
    """What loading the model made of it (layers may rewrite the launch-wide value)."""
    skip_tokens: tuple[str, ...]
    user_block_size: int | None
    block_size: int
    max_model_len: int
    max_num_batched_tokens: int
    max_num_seqs: int
    gpu_memory_utilization: float = 0.9
    kv_cache_memory_bytes: int | None = None
    num_gpu_blocks_override: int | None = None
    prefix_caching: bool
    async_scheduling: bool
    model_runner: str
    max_concurrent_batches: int
    hybrid_manager_disabled: bool
    sliding_window: int | None
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    data_parallel: int = 1
    decode_context_parallel: int = 1
    prefill_context_parallel: int = 1
    attention_backend: str | None = None
    quantization: str | None = None
    kv_cache_layout: str | None = None
    state_mode: str | None = None
    """`mamba_cache_mode` of a model with state layers: `none`, `align` or `all`."""
    state_block_size: int | None = None
    """Tokens between two states of one request (`mamba_block_size`)."""
    speculative_method: str | None = None
    """How tokens are speculated (`mtp`, `eagle3`, `draft_model`, …); None without speculative decoding."""
    num_speculative_tokens: int = 0
    draft_model: str | None = None
    """The draft model as the operator named it; None where the target holds it or there is none."""
    draft_architecture: str | None = None
    """The class of the draft's layers; None where it has none."""
    draft_cache_dtype: str | None = None
    """The draft's own cache dtype; None where it takes the target's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The emulated start-up. It exists even when start-up fails: it holds what was computed up to there and what
    could still be computed independently. `error` is the first failure, `later_errors` those behind it.
    `after_planning` are those that come once the cache is planned, where planning succeeds."""

    checkpoint: Checkpoint
    launch: Launch
    release: Release
    geometry: ModelGeometry | None
    settings: Settings | None
    skip: Skip
    layers: tuple[LayerPlan, ...]
    shared: tuple[SharedLayer, ...]
    groups: tuple[Group, ...]
    block_size_steps: tuple[BlockSizeStep, ...]
    backends: tuple[BackendChoice, ...]
    capacity: Capacity | None
    error: StartupError | None
    later_errors: tuple[StartupError, ...] = ()
    after_planning: tuple[StartupError, ...] = ()
    trace: tuple[Step, ...] = ()
    exact: bool = True
    """Whether vLLM's own answers cover this architecture and release, every option was looked at, and nothing that only
    the machine knows takes part; False marks the numbers as derived."""
    draft: Checkpoint | None = None
    """The checkpoint of the draft model that the launch names."""

    @property
    def ok(self) -> bool:
        """Whether start-up gets through, to the first request."""
        return self.stops_with is None

    @property
    def stops_with(self) -> StartupError | None:
        """What stops start-up, while the cache is planned or after; None where it gets through."""
        return next(iter(self.errors), None)

    @property
    def errors(self) -> tuple[StartupError, ...]:
        """The error at which start-up stops and those that wait behind it."""
        return (() if self.error is None else (self.error,)) + self.later_errors + self.after_planning

    def failures(self, kind: type[FailureKind]) -> Iterator[tuple[StartupError, FailureKind]]:
        """The errors of one kind of failure, each with its facts, first failure first."""
        return ((error, error.facts) for error in self.errors if isinstance(error.facts, kind))
