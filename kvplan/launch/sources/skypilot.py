"""SkyPilot tasks: `setup` and `run` with `envs` and `resources`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kvplan.launch.found import Found
from kvplan.launch.passages import join
from kvplan.launch.sources import containers, gpus, images
from kvplan.launch.sources.commands import Reader
from kvplan.launch.sources.typed import Beside
from kvplan.launch.sources.yamlfile import Mapping, Node, Scalar, Sequence
from kvplan.launch.values import Hardware


def recognises(document: Node) -> bool:
    """A task with a `run` text beside resources, setup or envs."""
    return (
        isinstance(document, Mapping)
        and "apiVersion" not in document
        and document.scalar("run") is not None
        and any(name in document for name in ("resources", "setup", "envs", "service"))
    )


def launches(document: Node, reader: Reader, _beside: Beside) -> Iterator[Found]:
    """The commands of `run`, with what `setup` installs."""
    assert isinstance(document, Mapping)
    texts = [node.passage for node in (document.scalar("setup"), document.scalar("run")) if node is not None]
    image = images.read(document.text("resources", "image_id").removeprefix("docker:"))
    gpu = accelerator(document.get("resources", "accelerators"))
    environment = containers.environment(document.get("envs"))
    count = None if gpu is None else gpu.count
    if count is not None and texts:
        environment["SKYPILOT_NUM_GPUS_PER_NODE"] = texts[0].replaced(str(count))
    around = replace(
        reader.around,
        kind="SkyPilot task",
        name=document.text("name"),
        environment=environment,
        gpu=gpu or containers.selected_gpu(document.mapping("resources") or document),
        count=count,
        release=image.release,
    )
    yield from replace(reader, around=around).shell(join(texts, "\n"))


def accelerator(node: Node | None) -> Hardware | None:
    """`H100:8`, `{H100: 8}` or the first of a list."""
    if isinstance(node, Sequence):
        return next((found for found in map(accelerator, node.items) if found is not None), None)
    if isinstance(node, Mapping):
        for name, (_, value) in node.pairs.items():
            gpu = gpus.read(name)
            if gpu is not None:
                return replace(gpu, count=value.whole) if isinstance(value, Scalar) else gpu
        return None
    if not isinstance(node, Scalar):
        return None
    name, _, number = node.text.partition(":")
    gpu = gpus.read(name)
    return gpu if gpu is None or not number.isdigit() else replace(gpu, count=int(number))
