"""What the engine config is checked for of a model: its numbers, and what its class can do.

They are known before the model's layers are, so these checks come first even where the layers cannot be told.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class ModelNumbers(Protocol):
    """The part of a model that the checks of the engine config read; a ModelGeometry has it."""

    @property
    def architecture(self) -> str:
        """The class that vLLM resolves to."""

    @property
    def total_heads(self) -> int:
        """Query heads of the whole model."""

    @property
    def total_kv_heads(self) -> int:
        """KV heads of the whole model, 0 where it has no attention."""

    @property
    def use_mla(self) -> bool:
        """Whether it keeps latent rows."""

    @property
    def is_moe(self) -> bool:
        """Whether it has experts."""

    @property
    def multimodal(self) -> bool:
        """Whether its class takes images, audio or video."""

    @property
    def supports_pipeline(self) -> bool:
        """Whether its class can be cut into pipeline stages."""

    @property
    def spreads_hidden_states(self) -> bool:
        """Whether its class spreads the streams of its hidden state over ranks."""

    @property
    def takes_adapters(self) -> bool:
        """Whether its class has `SupportsLoRA`."""

    @property
    def runner_type(self) -> str:
        """`generate`, `pooling` or `draft`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownNumbers:
    """The numbers of a model whose layers are not known."""

    architecture: str
    total_heads: int
    total_kv_heads: int
    use_mla: bool
    is_moe: bool
    multimodal: bool
    supports_pipeline: bool
    spreads_hidden_states: bool
    takes_adapters: bool
    runner_type: str
