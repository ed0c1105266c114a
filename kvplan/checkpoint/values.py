"""What the checkpoint room hands on: the model's files, read and normalised, nothing decided."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

ConfigDict = Mapping[str, Any]
"""A normalised Hugging Face config: JSON values under the attribute names that vLLM reads."""


class Source(StrEnum):
    """Where a model's files were found."""

    CATALOG = "catalog"
    DIRECTORY = "directory"
    FILE = "file"
    STDIN = "stdin"
    HUB_CACHE = "hub-cache"
    HUB = "hub"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A model's files as vLLM would read them.

    `config` is the top-level config and `text_config` the one of the language model inside it (the same object
    for text-only models), both after transformers' own config class has filled defaults and derived fields, with
    every alias of `attribute_map` readable under both names. `quantization` is the checkpoint's quantisation
    section (`quantization_config`, or `hf_quant_config.json`), as vLLM would pick it, or None.
    """

    reference: str
    name: str
    source: Source
    path: str | None
    config_sha256: str
    config: ConfigDict
    text_config: ConfigDict
    architectures: tuple[str, ...]
    model_type: str
    quantization: ConfigDict | None = None
    normalised_by: str = "transformers"
    """`transformers`, or `conventions` where transformers does not know the model type."""
    weight_bytes: int | None = None
    has_processor: bool = True
    """Whether the multimodal processor's files can be read: vLLM asks them for the size of the largest item. False
    only for a bare config without them."""
    provenance: str | None = None
    """For catalog models, the public source of the config."""
    incomplete: str | None = None
    """`trimmed` or `reconstructed`: a catalog model whose config is not the file as published, so that fields may be
    missing."""

    @property
    def file(self) -> str:
        """What messages call the config: its path, or the reference where there is no file."""
        return self.path or self.reference
