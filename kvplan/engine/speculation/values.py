"""What speculative decoding amounts to for one launch."""

from __future__ import annotations

from dataclasses import dataclass

from kvplan.checkpoint.values import Checkpoint
from kvplan.engine.models.geometry import LayerGeometry, ModelGeometry
from kvplan.engine.values import StartupError

NO_LAYERS = frozenset({"ngram", "ngram_gpu", "suffix", "custom_class", "medusa", "mlp_speculator"})
"""Methods whose proposer keeps no KV cache."""

EAGLE_LIKE = frozenset({"eagle", "eagle3", "mtp", "dflash", "dspark"})
"""Methods that draft from the target's hidden states."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Speculation:
    """A settled `--speculative-config`. Lengths in tokens."""

    method: str
    tokens: int
    """num_speculative_tokens."""
    reference: str | None = None
    """The draft model as the operator named it; None where the target's own checkpoint holds it."""
    checkpoint: Checkpoint | None = None
    """The draft's config after vLLM rewrote it; None for methods without a model."""
    geometry: ModelGeometry | None = None
    """The draft as a model of its own (`draft_model`); other drafts are built with the target's model config."""
    layers: tuple[LayerGeometry, ...] = ()
    """The draft's layers, which the last pipeline stage holds."""
    cache_dtype: str | None = None
    """The draft's own cache dtype; None takes the target's."""
    attention_backend: str | None = None
    """The attention backend that --speculative-config names."""
    draft_tensor_parallel: int = 1
    parallel_drafting: bool = False
    padded: bool = True
    mixed_vocabularies: bool = False
    """use_heterogeneous_vocab: the draft may have another vocabulary."""
    dynamic: bool = False
    """The number of speculative tokens changes with the batch size."""
    adaptive: bool = False
    """enable_adaptive_verification."""
    non_causal: bool = False
    """Whether the draft attends in both directions over the tokens it proposes."""
    modules: int = 1
    """MTP modules that run one after the other in one step."""
    failure: StartupError | None = None
    """Why target and draft do not go together, which shows once the target is built."""
    max_model_len: int | None = None
    """The longest request the draft takes; None where it takes what the target takes."""

    @property
    def architecture(self) -> str | None:
        """The class of the draft's layers, None where it has none."""
        if self.checkpoint is None or not self.layers:
            return None
        return next(iter(self.checkpoint.architectures), None)

    @property
    def lookahead(self) -> int:
        """Positions past the target's that the draft writes (`num_lookahead_tokens`)."""
        if self.method == "dflash":
            return self.tokens + 1
        return self.tokens if self.method in EAGLE_LIKE or self.method == "draft_model" else 0

    @property
    def extra_retained_tokens(self) -> int:
        """Tokens below the window that sliding layers keep for MTP modules that read ahead."""
        return self.tokens - 1 if min(self.modules, self.tokens) > 1 else 0
