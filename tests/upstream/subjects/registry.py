"""The tables of vLLM's model registry, and the classes that they name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tests.upstream.evaluate import ClassRef, Evaluator
from tests.upstream.sources import Moved, Sources

PLACE = "model_executor/models/registry.py"
FOLDER = "vllm.model_executor.models."


def table(sources: Sources, name: str) -> Mapping[str, Any]:
    """A table of the registry."""
    found = Evaluator(sources).constant(sources.first(PLACE), name)
    if not isinstance(found, dict):
        raise Moved(f"{PLACE} has no {name}: `architectures` must learn the new place")
    return found


def has(sources: Sources, name: str) -> bool:
    """Whether the release's registry has a table of that name."""
    return name in sources.first(PLACE).names


def model_classes(sources: Sources, evaluator: Evaluator) -> Iterator[tuple[str, ClassRef]]:
    """Architecture names with their classes, where the class is found by its name."""
    for name, (module, class_name) in table(sources, "_VLLM_MODELS").items():
        found = sources.dotted(module if module.startswith("vllm.") else FOLDER + module)
        owner = None if found is None else evaluator.constant(found, class_name)
        if isinstance(owner, ClassRef):
            yield name, owner
