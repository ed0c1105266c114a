"""What a model's own attention code answers when it is asked how it will store its rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

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


class FormatRefused(Exception):  # noqa: N818 - an outcome of vLLM, not an error of kvplan
    """The model's code refuses the cache dtype or the backend that was asked for."""

    def __init__(self, message: str, exception: str, option: str, value: str, accepted: tuple[str, ...]) -> None:
        super().__init__(message)
        self.exception = exception
        self.option = option
        self.value = value
        self.accepted = accepted
