"""What a vLLM model class builds: its attention layers, before dtype, parallelism and block size."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


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


@dataclass(frozen=True, slots=True)
class Latent:
    """The dimensions of multi-head latent attention (elements per head or per latent row)."""

    kv_lora_rank: int
    qk_rope_head_dim: int
    qk_nope_head_dim: int
    v_head_dim: int
    sparse: bool = False
    index_topk: int | None = None


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
    num_heads: int = 0
    num_kv_heads: int = 0
    head_size: int = 0
    """Elements of a key row (for MLA: kv_lora_rank + qk_rope_head_dim; for an indexer: bytes of a row)."""
    head_size_v: int | None = None
    """Elements of a value row where they differ from `head_size`."""
    sliding_window: int | None = None
    has_sinks: bool = False
    latent: Latent | None = None
    owns_indexer: bool = False
    """Whether a sparse MLA layer computes the top-k itself (others follow the last that does)."""
    own_backend: str | None = None
    """The backend that the model's code (or its hook) picks for this layer without asking the selector."""
    stores_model_dtype: bool = False
    """A cache-only module that stores elements of the model's dtype, not bytes of its own format."""
    replicates_kv_heads: bool = True
    """False for model code that divides its KV heads by the tensor-parallel size even where that leaves none."""
    reads_cache_config: bool = True
    """False for model code that builds its layers without the cache config: no cache dtype, window or skip list
    reaches them."""
    reads_skip_list: bool = True
    """False for layer classes that never look at the skip list in any release."""
    shares_cache_of: str | None = None
    """Name of the layer whose cache this one reads and writes instead of owning one."""


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
    num_attention_heads: int
    num_kv_heads: int
    """Model-level KV heads of the whole model (MLA models still report their config's heads)."""
    head_size: int
    use_mla: bool = False
    is_moe: bool = False
    is_hybrid: bool = False
    runner_type: str = "generate"
    is_encoder_decoder: bool = False
    is_attention_free: bool = False
    supports_pipeline: bool = True
    is_multimodal: bool = False
    uses_mm_prefix: bool = False
    """Bidirectional attention over image tokens (`is_mm_prefix_lm`), which some backends refuse."""
    mm_prefix_item_tokens: int | None = None
    """Tokens of the largest multimodal item of a prefix-LM, which must fit one batch; None where there is none."""
    model_sliding_window: int | None = None
    """Window (tokens) of every attention layer that does not pass one itself: vLLM's `cache_config.sliding_window`,
    before `--disable-sliding-window`."""
    logits_soft_cap: bool = False
    """The config has `attn_logit_softcapping`, which some backends refuse."""
    backend_by_head_sizes: bool = False
    """The model's config hook picks a backend where its layers differ in head size."""
    family: str = "general"
    """The family file that built it; `general` for the rule that covers the rest."""
    layers: tuple[LayerGeometry, ...] = field(default=())
