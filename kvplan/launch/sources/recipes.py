"""vLLM recipe files: every variant on every GPU that the recipe names, as its command builder would write it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kvplan.launch.found import Found, FoundLaunch
from kvplan.launch.parser import EntryPoint
from kvplan.launch.passages import Passage
from kvplan.launch.sources import containers, gpus, images, typed
from kvplan.launch.sources.commands import Reader
from kvplan.launch.sources.typed import Beside
from kvplan.launch.sources.yamlfile import Mapping, Node, Scalar
from kvplan.launch.values import Hardware

_FAMILIES = {7: "volta", 8: "ampere", 9: "hopper", 10: "blackwell", 12: "blackwell"}
"""The hardware generation of a compute capability, as recipes call it."""
_NODE = {"gb200": 4, "gb300": 4, "gb10": 1, "gh200": 1}
"""GPUs of a node where it is not eight."""


def recognises(document: Node) -> bool:
    """A recipe: a model with its id, and variants."""
    return (
        isinstance(document, Mapping)
        and document.scalar("model", "model_id") is not None
        and document.mapping("variants") is not None
    )


def launches(document: Node, reader: Reader, _beside: Beside) -> Iterator[Found]:
    """Variants × hardware, tensor-parallel over one node, with the features that are on by default."""
    assert isinstance(document, Mapping)
    variants = document.mapping("variants")
    assert variants is not None
    for name, (_, variant) in variants.pairs.items():
        if isinstance(variant, Mapping):
            for gpu in _hardware(document):
                yield _launch(document, name, variant, gpu, reader)


def _hardware(document: Mapping) -> list[Hardware | None]:
    named = document.mapping("meta", "hardware")
    found = [] if named is None else [_gpu(name) for name in named.pairs]
    known: list[Hardware | None] = [gpu for gpu in found if gpu is not None]
    return known or [None]


def _gpu(name: str) -> Hardware | None:
    """The GPU of a hardware id: `h200`, `rtx_pro_6000`, `dgx_spark_gb10`."""
    return gpus.read(name.replace("_", "-")) or gpus.read(name.rpartition("_")[2])


def _launch(document: Mapping, name: str, variant: Mapping, gpu: Hardware | None, reader: Reader) -> Found:
    model = variant.scalar("model_id") or document.scalar("model", "model_id")
    assert model is not None
    words: list[Passage] = [model.passage, *containers.words(document.get("model", "base_args"))]
    environment = containers.environment(document.get("model", "base_env"))
    count = 8 if gpu is None else _NODE.get(gpu.name, 8)
    limit = document.scalar("strategy_overrides", "single_node_tp", "tp")
    size = count if limit is None or limit.whole is None else min(count, limit.whole)
    at = typed.place(limit or variant)
    if size > 1:
        words.append(at.replaced(f"--tensor-parallel-size={size}"))
    words += containers.words(variant.get("extra_args"))
    environment |= containers.environment(variant.get("extra_env"))
    for overrides in (document.mapping("hardware_overrides"), variant.mapping("hardware_overrides")):
        block = _override(overrides, gpu)
        if block is not None:
            words += containers.words(block.get("extra_args"))
            environment |= containers.environment(block.get("extra_env"))
    optional = {node.text for node in document.items("opt_in_features") if isinstance(node, Scalar)}
    features = document.mapping("features")
    for feature, (_, body) in ({} if features is None else features.pairs).items():
        if feature not in optional and isinstance(body, Mapping):
            words += containers.words(body.get("args"))
            environment |= containers.environment(body.get("env"))
    image = _image(document)
    floor = document.text("model", "min_vllm_version")
    around = replace(
        reader.around,
        kind="recipe",
        name=name if gpu is None else f"{name} on {gpu.name}",
        gpu=gpu,
        count=None if gpu is None else count,
        environment=environment,
        release=None if image is None else image.release,
        release_reason=f"the recipe asks for {floor} or later" if floor else "the recipe names no release",
    )
    return FoundLaunch(entry=EntryPoint.SERVE, words=tuple(words), location=variant.location, around=around)


def _override(overrides: Mapping | None, gpu: Hardware | None) -> Mapping | None:
    """The block of this GPU, of its generation, or of the maker."""
    if overrides is None or gpu is None:
        return None
    names = (gpu.name, _FAMILIES.get(gpu.capability[0], ""), "nvidia")
    return next((block for block in map(overrides.mapping, names) if block is not None), None)


def _image(document: Mapping) -> images.Image | None:
    node = document.scalar("model", "docker_image") or document.scalar("model", "docker_image", "nvidia")
    return None if node is None else images.read(node.text)
