"""A YAML file of vLLM's own options, as `vllm serve --config FILE` reads it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kvplan.launch.found import Found, FoundLaunch
from kvplan.launch.options import all_flags
from kvplan.launch.parser import EntryPoint
from kvplan.launch.passages import Passage
from kvplan.launch.sources.commands import Reader
from kvplan.launch.sources.typed import Beside
from kvplan.launch.sources.yamlfile import Mapping, Node


def recognises(document: Node) -> bool:
    """Whether the keys are vLLM's options: the model and at least one other, and hardly anything else."""
    if not isinstance(document, Mapping) or "model" not in document or len(document.pairs) < 2:
        return False
    if "apiVersion" in document or "services" in document:
        return False
    flags = frozenset(all_flags())
    known = sum(f"--{key.replace('_', '-')}" in flags for key in document.pairs)
    return document.scalar("model") is not None and known >= 2 and known * 4 >= len(document.pairs) * 3


def launches(document: Node, reader: Reader, _beside: Beside) -> Iterator[Found]:
    """The launch `vllm serve --config FILE`."""
    source = document.source
    place = document.location
    at = Passage("--config", source.name, ((0, place.line, place.column),))
    path = at.replaced(source.name if source.name.endswith((".yaml", ".yml")) else f"{source.name}.yaml")
    around = replace(reader.around, kind="--config file", files={path.text: source.passage()})
    yield FoundLaunch(entry=EntryPoint.SERVE, words=(at, path), location=place, around=around)
