"""What a vLLM model class builds: its attention layers, before dtype, parallelism and block size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from kvplan.engine.models.shapes import Form, Latent

if TYPE_CHECKING:
    from kvplan.engine.backends.values import BackendQuery
    from kvplan.engine.models.formats import CacheFormat
    from kvplan.engine.models.stages import StageNeed
    from kvplan.releases import Release


class Role(StrEnum):
    """What a cached layer is for (the `role` of the JSON contract)."""

    ATTENTION = "attention"
    INDEXER = "indexer"
    STATE = "state"
    COMPRESSOR = "compressor"
    WINDOW = "window"
    CROSS_ATTENTION = "cross_attention"
    DRAFT = "draft"


class Kind(StrEnum):
    """Which of vLLM's layer classes owns the cache."""

    ATTENTION = "attention"
    """`Attention` and subclasses that make full or sliding-window specs."""
    MLA = "mla"
    """`MLAAttention` and subclasses: one latent row a token."""
    INDEXER = "indexer"
    """Key cache of a sparse-attention indexer (`DeepseekV32IndexerCache` and the like)."""
    OWN = "own"
    """A module of the model's own code that writes its own spec (`LayerGeometry.own`)."""
    STATE = "state"
    """`MambaBase` and subclasses: a state of fixed size a request."""
    CHUNKED = "chunked"
    """`ChunkedLocalAttention`: each token sees only its own chunk of the text."""
    CROSS = "cross"
    """`CrossAttention`: keys and values of the encoder's output, once a request."""
    SINK = "sink"
    """`StaticSinkAttention`: full attention with learned tokens in front."""
    ENCODER = "encoder"
    """`EncoderOnlyAttention`: attends in both directions and keeps nothing."""
    RSWA = "rswa"
    """Full attention over the prompt and a window over what is generated, every token of which stays cached."""


class StateKind(StrEnum):
    """How a state layer remembers: which tensors one state consists of."""

    MAMBA1 = "mamba1"
    MAMBA2 = "mamba2"
    DELTA = "delta"
    """Gated delta net."""
    KDA = "kda"
    """Kimi delta attention."""
    CONVOLUTION = "convolution"
    """Short convolution."""
    LINEAR = "linear"
    """Lightning attention: one matrix a head."""


class StateDtype(StrEnum):
    """What decides the dtype of a state's recurrent tensor."""

    AS_CONVOLUTION = "as_convolution"
    """It is stored like the convolution's, whatever `--mamba-ssm-cache-dtype` says."""
    OPTION = "option"
    """`--mamba-ssm-cache-dtype`; `auto` stores it like the convolution's."""
    FLOAT32 = "float32"
    FLOAT32_OR_OPTION = "float32_or_option"
    """`--mamba-ssm-cache-dtype`, of which float32 (also `auto`) and bfloat16 are possible."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The state of one layer and sequence, whole model, before tensor parallelism. Sizes in elements.

    `kernel` is the width of the convolution, which remembers `kernel - 1` columns. `heads` and `head_dim` are those
    of values; `width` the channels of a Mamba mixer or a short convolution.
    """

    kind: StateKind
    kernel: int = 0
    width: int = 0
    heads: int = 0
    head_dim: int = 0
    key_heads: int = 0
    key_dim: int = 0
    groups: int = 0
    state_size: int = 0
    counts_drafts: bool = False
    """Whether the convolution also remembers a column for every speculative token."""
    recurrent: StateDtype = StateDtype.OPTION
    split_convolution: bool = False
    """Whether queries, keys and values are convolved into tensors of their own."""
    checkpoints: bool = False
    """Whether the layer can store a state inside a prompt, where its fast prefill kernel runs."""
    replicated: bool = False
    """Whether every tensor-parallel rank keeps all of it."""
    follows: State | None = None
    """The state of other layers with which this one is stored inside a prompt."""
    beside: tuple[State, ...] = ()
    """Of the state that a class reports: those of its other layers, whose pages block sizes are aligned to as well."""


class Slots(StrEnum):
    """How a ring of at least one group of slots grows for tokens that are stored before they are accepted."""

    GROUPS = "groups"
    """Whole groups that hold a group and the drafts."""
    POWER_OF_GROUPS = "power_of_groups"
    """The same, but a power of two of them."""
    POWER = "power"
    """A power of two that holds the drafts, the token they follow and the row before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomCache:
    """How a model's own cache module lays out its pages. Its rows are `head_size` elements wide.

    With `follows_format` the rows have the format that the model's attention settles on for this GPU and cache
    dtype; the rest have a storage type of their own.
    """

    form: Form
    storage: str | None = None
    """Storage dtype by name; None: the model's dtype (or what the attention settles on)."""
    follows_format: bool = False
    behind_attention: bool = False
    """Whether the attention module, which may own no cache, registers before this one and so is asked first for a
    block size."""
    is_attention: bool = False
    """Whether the module is the attention itself, so that it has a cache dtype of its own."""
    block_size: int | None = None
    """Tokens a block; None: the launch's block size."""
    tokens_per_state: int = 1
    """Tokens that one stored row stands for."""
    packed_row_bytes: int | None = None
    """Bytes of a row where the attention stores fp8_ds_mla."""
    alignment: int | None = None
    """Bytes that pages are padded to a multiple of."""
    packed_alignment: int | None = None
    """The same where the attention stores fp8_ds_mla."""
    stride: int = 1
    """Bytes that the distance between blocks must be a multiple of."""
    mode_follows_format: bool = False
    """Whether the spec carries the quant mode of the attention's cache dtype."""
    replicated_heads: bool = True
    """Whether every tensor-parallel rank keeps all KV heads."""
    fills_page_of: str | None = None
    """Name of the attention whose page the ring fills, block size and all."""
    ring_row_bytes: int = 1
    """Bytes of one row of such a ring; blocks must lie whole rows apart."""
    ring_rows: int = 0
    """Rows that it must hold, not counting those of drafts."""
    slots: Slots | None = None
    """How a ring makes room for drafts; `block_size` is what it has without them."""
    replays: bool = False
    """Whether the window is computed again after a prefix hit instead of being shared, where the launch lets it."""
    divides_block: bool = False
    """Whether the launch's block size must be a multiple of the ring."""

    def for_drafts(self, tokens: int) -> CustomCache:
        """The ring that a launch of `tokens` speculative tokens gets; other caches stay as they are.

        Groups of 4, 5 tokens: 9 slots, so 12 by GROUPS and 16 by POWER_OF_GROUPS. POWER, 7 tokens: 9 rows, so 16.
        """
        rows = self.ring_rows + tokens if self.fills_page_of is not None else self.ring_rows
        size = self.block_size
        if size is not None and self.slots is not None:
            groups = -(-(size + tokens) // size)
            match self.slots:
                case Slots.GROUPS:
                    size *= groups
                case Slots.POWER_OF_GROUPS:
                    size *= _power_of_two(groups)
                case Slots.POWER:
                    size = max(size, _power_of_two(tokens + 2))
        return replace(self, block_size=size, ring_rows=rows)


def _power_of_two(least: int) -> int:
    return 1 << (least - 1).bit_length()


HEADED = frozenset({Kind.ATTENTION, Kind.CHUNKED, Kind.CROSS, Kind.SINK, Kind.RSWA})
"""Kinds that vLLM builds on `Attention`, with keys and values a head."""

BACKEND_FIRST = frozenset({Kind.CHUNKED, Kind.CROSS, Kind.SINK, Kind.ENCODER})
"""Kinds whose class picks the backend by the launch-wide cache dtype, before the layer's own is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerGeometry:
    """One attention layer (or cache-only module) as the model's own code constructs it.

    Head counts are those of the whole model, before tensor parallelism. `sliding_window` is what the layer itself
    passes (tokens); None leaves it to the model-level window. Tuples of layers are in the order in which vLLM
    registers the modules: grouping depends on it.
    """

    name: str
    """vLLM's module prefix, e.g. `model.layers.0.self_attn.attn`."""
    index: int
    """The decoder layer it belongs to; decides the pipeline stage."""
    kind: Kind = Kind.ATTENTION
    role: Role = Role.ATTENTION
    layer_class: str = "Attention"
    total_heads: int = 0
    total_kv_heads: int = 0
    head_size: int = 0
    """Elements of a key row (for MLA: kv_lora_rank + qk_rope_head_dim; for an indexer: bytes of a row)."""
    head_size_v: int | None = None
    """Elements of a value row where they differ from `head_size`."""
    sliding_window: int | None = None
    chunk_size: int | None = None
    """Tokens of a chunk, for layers that attend within one."""
    sink_tokens: int | None = None
    """Learned tokens that stand in front of every request's cache."""
    rswa_window: int | None = None
    """Generated tokens that later ones see, for layers that always see the whole prompt."""
    has_sinks: bool = False
    needs: str | None = None
    """What the layer hands its backend that only some take: `alibi_sqrt`, `chunk_lookback`, or `flashinfer` itself."""
    latent: Latent | None = None
    own: CustomCache | None = None
    """Set where `kind` is OWN."""
    state: State | None = None
    one_stage_because: str | None = None
    """Why vLLM refuses pipeline stages where the model has such a layer, in words like its own."""
    owns_indexer: bool = False
    """Whether a sparse MLA layer computes the top-k itself (others follow the last that does)."""
    custom_backend: str | None = None
    """The backend that the model's code (or its hook) picks for this layer without asking the selector."""
    brings_value_backend: bool = False
    """Whether the model's code picks a backend of its own where value rows are narrower than key rows."""
    norm_groups: int | None = None
    """Groups of a state layer's norm that have to divide over the tensor-parallel ranks; None where nothing asks."""
    index_dtype: str | None = None
    """Dtype of the keys of an indexer that stores them as they are; None where they are bytes of its own format."""
    replicates_kv_heads: bool = True
    """False for model code that divides its KV heads by the tensor-parallel size even where that leaves none."""
    reads_cache_config: bool = True
    """False for model code that builds its layers without the cache config: no cache dtype, window or skip list
    reaches them."""
    reads_skip_list: bool = True
    """False for layer classes that never look at the skip list in any release."""
    shares_cache_of: str | None = None
    """Name of the layer whose cache this one reads and writes instead of owning one."""
    then_asserts: str | None = None
    """What the decoder layer asserts in vain once this attention is built."""


@dataclass(frozen=True, slots=True)
class Tower:
    """A vision or audio encoder beside the decoder: it caches nothing but is split over ranks like it."""

    place: str
    """Config section that it is built from, dotted."""
    heads: int | None
    """Attention heads; None where attention is not split."""
    sizes: tuple[tuple[str, int], ...] = ()
    """Widths (elements) that are split, with the names of their fields."""
    asserts: str | None = None
    """What its attention asserts itself where the heads do not divide; None: what vLLM's `divide` says."""
    merged: bool = False
    """Whether the widths belong to merged layers, which assert without a text."""
    yields: bool = False
    """Whether it stays whole on every rank where the heads do not divide."""
    late: bool = False
    """Whether it is built after the decoder."""
    whole_on_request: bool = False
    """Whether `--mm-encoder-tp-mode data` keeps it whole on every rank."""
    layer: str | None = None
    """Name of its first layer, where the class quantises the tower like the decoder and that is followed."""
    form: str = ""
    """How that layer is built: one of the names in `towers.FORMS`."""
    width: int | None = None
    """Elements of its hidden states, where `layer` is known."""
    merger: tuple[int, int] | None = None
    """Elements that the projection behind it takes and makes, where that is built before its layers."""


GENERAL_FAMILY = "general"
"""The `family` of models without a file of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelGeometry:
    """A model as one vLLM release builds it.

    The model-level numbers are those of vLLM's ModelConfig: they drive divisibility checks, block sizing and
    defaults, while the cache itself is built from `layers`.
    """

    architecture: str
    """The class that vLLM resolves to (may be a Transformers-backend class)."""
    num_layers: int
    """Decoder layers that pipeline parallelism splits."""
    total_heads: int
    total_kv_heads: int
    """Model-level KV heads of the whole model (MLA models still report their config's heads)."""
    head_size: int
    use_mla: bool = False
    is_moe: bool = False
    takes_adapters: bool = False
    """Whether the class has `SupportsLoRA`."""
    multimodal: bool = False
    """Whether the class takes images, audio or video."""
    is_hybrid: bool = False
    runner_type: str = "generate"
    attention: str = "decoder"
    """How vLLM sorts the model: `decoder`, `encoder_only`, `encoder_decoder`, `hybrid` or `attention_free`."""
    never_shares_prefixes: bool = False
    """Prefix caching is switched off whoever asked for it."""
    prefills_in_parts: bool = True
    """Whether chunked prefill is on by default."""
    shares_prefixes: bool = True
    """Whether prefix caching is on by default, as far as attention and pooling decide it."""
    supports_pipeline: bool = True
    uses_mm_prefix: bool = False
    """Bidirectional attention over image tokens (`is_mm_prefix_lm`), which some backends refuse."""
    mm_prefix_item_tokens: int | None = None
    """Tokens of the largest multimodal item of a prefix-LM, which must fit one batch; None where there is none."""
    has_inner_state: bool = False
    """Whether the class keeps states at all, even where all layers of this config are attention."""
    state: State | None = None
    """The state that vLLM asks the model class for when it aligns block sizes; layers may keep another."""
    state_chunk: int = 2048
    """Tokens of the chunks in which state layers work through a prompt (`get_mamba_chunk_size`)."""
    caches_every_state: bool = False
    """Whether the class can cache the state of every block (`SupportsMambaPrefixCaching`)."""
    replays_states: bool = False
    """Whether the class can keep the latest inputs beside the state (`SupportsReplaySSM`)."""
    model_sliding_window: int | None = None
    """Window (tokens) of every attention layer that does not pass one itself: vLLM's `cache_config.sliding_window`,
    before `--disable-sliding-window`."""
    logits_soft_cap: bool = False
    """The config has `attn_logit_softcapping`, which some backends refuse."""
    is_diffusion: bool = False
    """A discrete diffusion model: the config has a `canvas_length`."""
    uses_rswa: bool = False
    """Generated tokens see a window of what was generated beside the whole prompt (`rswa_window`)."""
    encoder: LayerGeometry | None = None
    """The first of the layers of a model that keeps no cache: they choose a backend all the same, and all the same one.
    None where there are none, or where what they ask is not known."""
    backend_by_head_sizes: bool = False
    """The model's config hook picks a backend where its layers differ in head size."""
    spreads_hidden_states: bool = False
    """Whether `--enable-hc-sp` can spread the class's residual streams over tensor-parallel ranks."""
    cache_format: Callable[[BackendQuery, Release], CacheFormat] | None = None
    """Which attention class and row format the model's own code picks; None: it asks the backend selector."""
    family: str = GENERAL_FAMILY
    """The family file that built it; `general` for the rule that covers the rest."""
    lacks_plans: frozenset[str] = frozenset()
    """Of `tensor` and `pipeline` parallelism, what the model's own code has no plan for where vLLM asks for one."""
    pipelines_unnamed_part: bool = False
    """The class hands on a config without an architecture, which vLLM verifies where there are pipeline stages."""
    towers: tuple[Tower, ...] = ()
    """Encoders for images and sound, where kvplan knows what they split."""
    layers: tuple[LayerGeometry, ...] = field(default=())
    stage_needs: tuple[StageNeed, ...] = ()
    """What the model's classes look for in every pipeline stage once its layers are built."""

    @property
    def by_general_rule(self) -> bool:
        """Whether no family file knows the model."""
        return self.family == GENERAL_FAMILY
