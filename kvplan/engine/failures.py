"""Every way in which start-up can fail: one class each, with what the failing check compared.

A check raises `stop(stage, PoolTooSmall(needed_bytes=…, …), "vLLM's own text")`; a rule asks
`plan.failures(PoolTooSmall)` and reads `error.facts.needed_bytes`. `code` is the failure's stable name in reports.
A new failure needs a class here, a check that raises it and a rule that claims it; a test holds the three together.
"""

from __future__ import annotations

from inspect import get_annotations
from typing import Any, ClassVar, Self, dataclass_transform


@dataclass_transform(kw_only_default=True, frozen_default=True)
class _Record:
    """What makes the failures behave like frozen dataclasses. They are none, because so many of those would make every
    start of kvplan slower by a tenth."""

    required: ClassVar[frozenset[str]] = frozenset()
    """The fields without a default."""

    def __init_subclass__(cls) -> None:
        own = get_annotations(cls)
        cls.required = cls.required.union(name for name in own if name not in cls.__dict__)

    def __init__(self, **facts: Any) -> None:
        if not self.required <= facts.keys():
            raise TypeError(f"{type(self).__name__} lacks {', '.join(sorted(self.required - facts.keys()))}")
        self.__dict__.update(facts)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} cannot change")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash((type(self), *self.__dict__))

    def __repr__(self) -> str:
        facts = ", ".join(f"{name}={value!r}" for name, value in self.__dict__.items())
        return f"{type(self).__name__}({facts})"


class Failure(_Record):
    """The base of them all: what the failing check compared. Bases among the failures have no `code`."""

    code: ClassVar[str] = ""

    layer: str | None = None
    """The layer concerned, by vLLM's module name; None where the failure is about the whole launch."""

    def about(self, layer: str) -> Self:
        """The same failure, of one layer."""
        return type(self)(**{**self.__dict__, "layer": layer})


class LayerFailure(Failure):
    """The base of those that always name a layer."""

    layer: str


class RefusedOption(Failure):
    """The command-line parser refuses an option or its value."""

    code = "refused_option"

    option: str | None
    """As it was written; None where the parser names none."""


class InvalidValue(Failure):
    """A value that the engine config, or a check behind it, does not take."""

    code = "invalid_value"

    option: str | None = None
    """As a long flag; None where several options are refused together."""
    value: object = None
    accepted: tuple[str, ...] = ()
    """What is taken instead, as far as it can be listed."""


class TooFewGpus(Failure):
    """More ranks than GPUs."""

    code = "too_few_gpus"

    ranks: int
    gpus: int


class ContextTooLong(Failure):
    """A context longer than the model's config allows, both in tokens."""

    code = "max_model_len_too_long"

    asked: int
    derived: int


class HybridManagerRefused(Failure):
    """The hybrid KV cache manager as it is set, or its absence, does not fit the launch."""

    code = "hybrid_manager"

    cause: str | None = None
    """The option that excludes it; None where it is off and the layers need it."""


class RemoteCodeNeeded(Failure):
    """No class for the model's config without code from its repository."""

    code = "remote_code"

    model_type: str
    class_path: str | None
    """The class that the config names; None where it names none."""


class ConfigNotRead(Failure):
    """A field of the model's config that the release cannot read."""

    code = "config_not_read"

    field: str
    since: str | None
    """The first release that can; None where none does."""


class ConfigValueRefused(Failure):
    """A value in the model's config that vLLM cannot use."""

    code = "config_value"

    field: str
    value: object
    accepted: tuple[str, ...] = ()
    """What is taken instead, as far as it can be listed."""


class ConnectorRefused(Failure):
    """A KV connector, or its settings, that the release does not take."""

    code = "connector_refused"

    known: tuple[str, ...] = ()
    """The release's connectors, where the name is not among them."""
    lists_none: bool = False
    """Whether it is a connector of several that lists none."""


class UnknownArchitecture(Failure):
    """An architecture that the release does not serve."""

    code = "unknown_architecture"


class ModelRefused(Failure):
    """The model's class refuses its config when it is built."""

    code = "model_refused"


class LoraUnsupported(Failure):
    """A model whose class takes no adapters."""

    code = "lora_unsupported"

    architecture: str


class NotEmulated(Failure):
    """kvplan, not vLLM, stops: it does not compute these caches."""

    code = "unplaceable_architecture"

    why: str


class NoParallelPlan(Failure):
    """The Transformers class of the model cannot be split in this way."""

    code = "no_parallel_plan"


class QuantisationRefused(Failure):
    """The base of what `--quantization` and the checkpoint's own method are refused for."""


class QuantisationMismatch(QuantisationRefused):
    """The checkpoint is quantised with another method than the launch asks for."""

    code = "quantization_mismatch"

    declared: str | None
    asked: str


class QuantisationUnknown(QuantisationRefused):
    """A method that the release does not know."""

    code = "quantization_unknown"

    method: str
    asked: str | None
    """The method that the launch asks for; None where it is the checkpoint's."""
    accepted: tuple[str, ...]


class QuantisationDeprecated(QuantisationRefused):
    """A method that only starts when asked to all the same."""

    code = "quantization_deprecated"

    method: str


class QuantisationOrder(QuantisationRefused):
    """Groups of weights ordered by activations, as `field` of the checkpoint's section says."""

    code = "quantization_order"

    field: str


class QuantisationFileMissing(QuantisationRefused):
    """A method whose settings are not among the checkpoint's files."""

    code = "quantization_file_missing"

    method: str
    files: tuple[str, ...]
    """The names that they can have."""


class QuantisationDtype(QuantisationRefused):
    """A method that does not compute in the model's dtype."""

    code = "quantization_dtype"

    method: str
    dtype: str
    accepted: tuple[str, ...]


class QuantisationCapability(Failure):
    """A method that needs a newer GPU."""

    code = "quantization_capability"

    method: str
    needed: int
    """Compute capability times ten."""


class CheckpointQuantisationRefused(Failure):
    """A quantisation section that vLLM cannot read."""

    code = "checkpoint_quantisation"

    method: str
    served_since: str | None
    """The first release that serves it; None where none does, or the release should."""


class CacheSchemeRefused(LayerFailure):
    """A kv_cache_scheme of the checkpoint that vLLM does not take."""

    code = "kv_cache_scheme"

    field: str
    """What of it."""


class E5m2WithScales(LayerFailure):
    """fp8_e5m2 on a checkpoint that is itself quantised."""

    code = "e5m2_with_scales"

    method: str | None


class WeightBlockSplit(Failure):
    """A rank's share of a weight is no multiple of the quantisation block."""

    code = "weight_block_split"

    weight: str
    size: int
    """Rows of one rank's share."""
    block: int
    scheme: str
    """What people call the quantisation."""
    tensor_parallel: int
    experts: int
    expert_parallel: bool


class ExpertBackend(Failure):
    """Kernels for routed experts that the launch names and that cannot run them."""

    code = "expert_backend"

    option: str
    """The long flag or the variable that names them."""
    value: str | None
    """What the flag says; None for a variable."""
    weights: str
    """How the experts are stored, as vLLM calls it."""
    accepted: tuple[str, ...]
    """The names that such weights know, where the one asked for is not among them."""


class ExpertsUneven(Failure):
    """Experts that are to be balanced and that the ranks cannot share evenly."""

    code = "experts_uneven"

    experts: int
    redundant: int
    """Copies beside them that `--eplb-config` asks for."""
    ranks: int


class ExpertsNotBalanced(Failure):
    """Experts that the release cannot move between ranks."""

    code = "experts_not_balanced"

    method: str | None
    """vLLM's class of their quantisation; None where the model's class does not balance."""


class CacheDtypeMismatch(Failure):
    """An explicit cache dtype that is not the model's."""

    code = "dtype_mismatch"

    cache_dtype: str
    model_dtype: str


class DtypeNotForMla(Failure):
    """A cache dtype that multi-head latent attention does not have."""

    code = "dtype_not_for_mla"

    cache_dtype: str


class TurboquantOnHybrid(Failure):
    """A TurboQuant cache dtype for a model with state layers."""

    code = "turboquant_hybrid"

    cache_dtype: str


class SkipTokenNotANumber(Failure):
    """A token of the skip list where only layer numbers are read."""

    code = "skip_token_not_a_number"

    token: str
    cache_dtype: str
    """What makes vLLM read numbers."""


class LayerNameRejected(LayerFailure):
    """A layer's name without exactly one number in it."""

    code = "layer_index"


class NoBackend(LayerFailure):
    """No attention backend takes the layer."""

    code = "no_backend"

    cache_dtype: str
    head_size: int
    mla: bool = False
    sparse: bool = False


class InvalidBackend(LayerFailure):
    """The backend that was asked for does not take the layer."""

    code = "invalid_backend"

    requested: str


class LayoutOutsideCuda(LayerFailure):
    """A cache layout that only ROCm backends have."""

    code = "layout_outside_cuda"

    cache_dtype: str


class ImplementationRefuses(LayerFailure):
    """The chosen backend refuses the layer once it is constructed."""

    code = "implementation_refuses"

    backend: str
    cache_dtype: str


class HeadsNotDivisible(Failure):
    """Attention heads of the whole model that the tensor-parallel size does not divide."""

    code = "heads_not_divisible"

    heads: int
    tensor_parallel: int


class KvHeadsNotDivisible(LayerFailure):
    """KV heads of the whole model that the tensor-parallel size does not divide."""

    code = "kv_heads_not_divisible"

    kv_heads: int
    tensor_parallel: int


class StateNotDivisible(Failure):
    """Channels or heads of a state that the tensor-parallel size does not divide."""

    code = "state_not_divisible"

    size: int
    tensor_parallel: int


class PartNotDivisible(Failure):
    """Another part of the model that the tensor-parallel size does not divide."""

    code = "part_not_divisible"

    part: str
    size: int
    tensor_parallel: int
    tower: str | None
    """The config section of the tower that it belongs to; None for the language model."""
    whole_on_request: bool
    """Whether an option keeps the tower whole on every rank."""


class NoExperts(Failure):
    """Expert parallelism for a model without experts."""

    code = "no_experts"

    architecture: str


class PipelineUnsupported(Failure):
    """A model, or its draft, that cannot be divided into stages."""

    code = "pipeline_unsupported"

    draft: bool = False


class PipelinePartition(Failure):
    """A partition that does not fit stages or layers."""

    code = "pipeline_partition"


class PartUnnamed(Failure):
    """Stages for a model whose language model names no architecture."""

    code = "part_unnamed"


class EmptyStage(Failure):
    """A stage without any layer that has a cache."""

    code = "empty_stage"


class StageRefused(Failure):
    """A pipeline stage whose layers are not what the model's class looks for among them."""

    code = "stage_refused"

    stage: int
    """Counted from 0."""
    start: int
    """Its first decoder layer."""
    end: int
    """The decoder layer after its last one."""


class RanksRefused(Failure):
    """Options of ranks, nodes and expert balancing that exclude each other."""

    code = "ranks_refused"

    option: str
    """The one to change, as a long flag."""
    accepted: tuple[str, ...] = ()


class ContextParallelRefused(Failure):
    """Sizes of context parallelism that vLLM does not take."""

    code = "context_parallel"

    option: str
    """The one to change, as a long flag."""
    max_dcp: int | None = None
    """The largest decode size that it would; None where that is not the matter."""


class SlidingWindowDivided(Failure):
    """A sliding-window cache under decode context parallelism."""

    code = "dcp_sliding_window"


class SpeculativeConfigRefused(Failure):
    """A key or value of `--speculative-config` that vLLM does not take."""

    code = "speculative_config"

    key: str
    value: object
    """None where the key is missing."""
    accepted: tuple[str, ...] = ()
    why: str | None = None
    """Why no value would do."""


class NoRoomForDraft(Failure):
    """A batch without room for the draft's tokens."""

    code = "no_room_for_draft"

    batched_tokens: int
    slots: int
    """Tokens that the draft needs."""


class NoStatesForDraft(Failure):
    """A model that does not hand out the hidden states that its draft reads."""

    code = "no_states_for_draft"

    architecture: str
    method: str
    since: str | None
    """The first release in which it does; None where none does."""


class DraftNotBuilt(Failure):
    """A draft whose layers vLLM cannot build."""

    code = "draft_not_built"


class StateOptionsRefused(Failure):
    """The base of what options of state layers are refused for."""

    option: str
    """As a long flag or the name of a variable."""


class StateBlockWithoutPrefixCaching(StateOptionsRefused):
    """A block size for states without prefix caching."""

    code = "state_block_without_prefix_caching"


class StateBlockUnset(StateOptionsRefused):
    """No block size for states where one is needed."""

    code = "state_block_unset"


class ReplayStatesRefused(StateOptionsRefused):
    """Replayed states beside something that excludes them."""

    code = "replay_states"


class StateModeRefused(StateOptionsRefused):
    """A mode of keeping states beside something that excludes it."""

    code = "state_mode"


class AssertionFails(Failure):
    """An assertion of vLLM's without a word of its own."""

    code = "assertion"

    check: str | None
    """What it compares; None where only the model's class knows."""
    page_bytes: int | None = None
    padded_page_bytes: int | None = None
    common_page_bytes: int | None = None


class NoSharedBlockSize(Failure):
    """Backends of one model that share no block size."""

    code = "no_shared_block_size"

    backends: tuple[str, ...]
    block_size: int | None = None
    """The size that some of them do not take; None where no size was wanted."""


class NoCommonBlockSize(Failure):
    """A block that the backends of one group cannot read in common parts."""

    code = "no_common_block_size"

    block_size: int
    backends: tuple[str, ...]
    kernel_block_sizes: str
    """What each takes, as vLLM lists it: `A: [16, 32]; B: [MultipleOf(16)]`."""


class BlockExceedsBatch(Failure):
    """A block longer than a batch."""

    code = "block_exceeds_batch"

    block_size: int
    batched_tokens: int


class BlockSizeRefused(LayerFailure):
    """A block size that the layer's own cache does not take."""

    code = "block_size_refused"

    block_size: int
    multiple: int | None = None
    """Of what it has to be a multiple; None where it is only too small."""


class EmptyPage(LayerFailure):
    """A block of fewer tokens than one compressed state stands for."""

    code = "empty_page"

    block_size: int


class PagesNotUnifiable(LayerFailure):
    """A page that cannot grow to the largest."""

    code = "pages_not_unifiable"

    page_bytes: int
    largest_page_bytes: int


class StateExceedsPage(Failure):
    """A state that is larger than the page of a latent layer."""

    code = "state_too_large"

    page_bytes: int


class CacheLayoutImpossible(Failure):
    """A memory layout that not all layers can have."""

    code = "cache_layout"

    requested: str | None
    """What the environment asks for."""


class ViewMismatch(LayerFailure):
    """The view of a cache covers other bytes than are allocated."""

    code = "view_mismatch"

    allocated_bytes_per_token: float
    viewed_bytes_per_token: float
    quant_mode: str | None
    backend: str | None
    cache_dtype: str | None


class ViewRefused(LayerFailure):
    """The backend does not know how to view the layer's cache."""

    code = "view_refused"


class StatesTooFew(Failure):
    """Fewer cache blocks than the sequences of a decode step that is captured whole."""

    code = "states_too_few"

    blocks: int
    max_num_seqs: int


class ConnectorWithoutHybrid(Failure):
    """A KV connector that does not know groups of several kinds, while the hybrid manager was asked for."""

    code = "connector_without_hybrid"

    connector: str


class ConnectorNeedsKernelBlock(Failure):
    """A KV connector that transfers blocks of the kernels' size, and finds none in the smallest block."""

    code = "connector_kernel_block"

    connector: str
    block_size: int
    """Tokens of the block that the worker sees."""
    backends: tuple[str, ...]


class PlannedAsBytes(LayerFailure):
    """A cache whose storage dtype a backend's planner does not know."""

    code = "planned_as_bytes"

    backend: str
    cache_dtype: str


class QueriesQuantised(LayerFailure):
    """A cache dtype that does not go with queries which are quantised before the kernel."""

    code = "queries_quantised"

    backend: str
    cache_dtype: str
    accepted: tuple[str, ...]


class SoftmaxSumsMissing(Failure):
    """A backend that does not return what context parallelism puts together."""

    code = "softmax_sums_missing"

    backend: str
    layers: tuple[int, ...]


class SeveralGroups(Failure):
    """Several KV cache groups where only one is possible."""

    code = "several_groups"

    groups: int


class NoMemory(Failure):
    """Nothing is left for the cache."""

    code = "no_memory"

    available_bytes: int | None = None
    """None where the model's weights alone are too large."""


class PoolTooSmall(Failure):
    """The pool does not hold one request of the longest length."""

    code = "pool_too_small"

    needed_bytes: int
    available_bytes: int
    max_model_len: int
    longest_request_tokens: int
    """The longest that fits, 0 if none does."""
