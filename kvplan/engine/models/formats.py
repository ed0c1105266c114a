"""What a model's own attention code answers when it is asked how it will store its rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kvplan.engine.models.shapes import Form

if TYPE_CHECKING:
    from kvplan.releases import Behaviour


@dataclass(frozen=True, slots=True)
class CacheFormat:
    """How the attention stores its rows."""

    cache_dtype: str
    """The cache dtype string the model's code ends with, which becomes the launch's."""
    storage: str
    """Storage dtype by name."""
    backend: str
    behaviour: Behaviour | None = None
    row_bytes: Mapping[Form, int] = field(default_factory=dict)
    """Bytes of a packed row by the form of its cache, where the GPU or the cache dtype decides them."""
    alignment: int | None = None
    """Bytes that packed pages are padded to a multiple of, where the GPU decides."""
    stride: int = 1
    """Bytes that the distance between blocks must be a multiple of, for the sliding rows."""


class FormatRefused(Exception):  # noqa: N818 - an outcome of vLLM, not an error of kvplan
    """The model's code refuses the cache dtype or the backend that was asked for."""

    def __init__(self, message: str, exception: str, option: str, value: str, accepted: tuple[str, ...]) -> None:
        super().__init__(message)
        self.exception = exception
        self.option = option
        self.value = value
        self.accepted = accepted
