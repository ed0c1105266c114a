"""What backend selection is asked with, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from kvplan.engine.models.shapes import Latent


@dataclass(frozen=True, slots=True)
class MultipleOf:
    """A kernel block size that may be any multiple of `base` tokens."""

    base: int

    def __str__(self) -> str:
        return f"MultipleOf({self.base})"


KernelBlockSize: TypeAlias = int | MultipleOf
"""Tokens in a block that a kernel can address: exactly so many, or any multiple of a base."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendQuery:
    """One layer's question: which attention backend, on this GPU, with this cache?

    The first part is vLLM's own selector config; the second part is what the backends read from the model and
    the engine config while they are validated. `model_*` are the numbers of vLLM's ModelConfig, which a few
    backends look at instead of the layer's; None means that they equal the layer's.
    """

    capability: tuple[int, int]
    """CUDA compute capability, e.g. (9, 0)."""
    head_size: int
    """Elements of a key row (MLA: the latent row, kv_lora_rank + qk_rope_head_dim)."""
    dtype: str
    """Model dtype: `bfloat16`, `float16` or `float32`."""
    kv_cache_dtype: str = "auto"
    """The layer's cache dtype string as it stands when the backend is chosen (`auto` for a skipped layer)."""
    block_size: int | None = None
    """Tokens a block, only where the operator gave `--block-size`."""
    use_mla: bool = False
    use_sparse: bool = False
    has_sink: bool = False
    has_sliding_window: bool = False
    use_mm_prefix: bool = False
    use_per_head_quant_scales: bool = False
    attn_type: str = "decoder"
    """`decoder`, `encoder`, `encoder_only` or `encoder_decoder`."""
    use_non_causal: bool = False
    use_batch_invariant: bool = False
    use_pcp: bool = False
    use_dcp: bool = False
    use_rswa: bool = False
    use_adaptive_verification: bool = False
    requested: str | None = None
    """`--attention-backend` as given, any case; None or `auto` leaves the choice to vLLM."""

    head_size_v: int | None = None
    """Elements of a value row where they differ from `head_size`."""
    tokens_per_state: int = 1
    """Tokens that one row of a compressed cache stands for."""
    num_heads: int = 0
    """Query heads of the layer on one rank."""
    num_kv_heads: int = 1
    """KV heads of the layer on one rank."""
    latent: Latent | None = None
    dcp_size: int = 1
    flash_attn_version: int | None = None
    """`--attention-config.flash_attn_version`, or what a model's hook set it to."""
    use_trtllm_attention: bool | None = None
    """`--attention-config.use_trtllm_attention`."""
    logits_soft_cap: bool = False
    """The model's config has `attn_logit_softcapping`."""
    is_diffusion: bool = False
    is_hybrid: bool = False
    state_cache_float32: bool = False
    """`--mamba-cache-dtype` or `--mamba-ssm-cache-dtype` is `float32`."""
    run_cache_dtype: str | None = None
    """The run's cache dtype, which skipped layers do not follow; None means `kv_cache_dtype`."""
    model_head_size: int | None = None
    model_num_heads: int | None = None
    model_num_kv_heads: int | None = None

    @property
    def major(self) -> int:
        """Major compute capability: the family of GPUs (9 Hopper, 10 Blackwell for data centres, 12 for desks)."""
        return self.capability[0]

    @property
    def run_dtype(self) -> str:
        """The cache dtype string of the whole run."""
        return self.kv_cache_dtype if self.run_cache_dtype is None else self.run_cache_dtype

    @property
    def heads_of_model(self) -> tuple[int, int]:
        """Query and KV heads a rank, as ModelConfig counts them."""
        return (
            self.num_heads if self.model_num_heads is None else self.model_num_heads,
            self.num_kv_heads if self.model_num_kv_heads is None else self.model_num_kv_heads,
        )

    @property
    def wanted(self) -> str | None:
        """The requested backend's enum name, or None for automatic choice."""
        if self.requested is None or self.requested.strip().lower() == "auto":
            return None
        return self.requested.strip().upper()


@dataclass(frozen=True, slots=True)
class BackendDecision:
    """What vLLM's CUDA platform answers: a backend, or the error it stops with."""

    backend: str | None
    """Enum name, e.g. `FLASH_ATTN`; None when nothing fits."""
    rejected: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Every backend that was considered and refused, with vLLM's reasons, in order of priority."""
    valid: tuple[str, ...] = ()
    """The backends that would work, in order of priority."""
    error: str | None = None
    """The gist of vLLM's message where it stops."""
    error_type: str | None = None
    precluded_by_block_size: tuple[str, ...] = ()
    """Backends of higher priority that only `--block-size` ruled out."""
