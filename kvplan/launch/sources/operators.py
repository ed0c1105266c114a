"""Custom resources of operators that write vLLM's command line themselves: KubeAI's Model and KAITO's Workspace."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from kvplan.launch.found import Found, FoundLaunch
from kvplan.launch.parser import EntryPoint
from kvplan.launch.passages import Passage, Source
from kvplan.launch.sources import containers, gpus, images, typed
from kvplan.launch.sources.commands import Reader
from kvplan.launch.sources.typed import Beside
from kvplan.launch.sources.yamlfile import Mapping, Node, YamlProblem, documents


def is_kubeai_model(document: Node) -> bool:
    """A Model of kubeai.org that vLLM runs."""
    return (
        isinstance(document, Mapping)
        and document.text("kind") == "Model"
        and document.text("apiVersion").startswith("kubeai.org/")
        and document.text("spec", "engine").lower() == "vllm"
    )


def kubeai_model(document: Node, reader: Reader, _beside: Beside) -> Iterator[Found]:
    """`--model=URL` and the resource's own arguments."""
    assert isinstance(document, Mapping)
    spec = document.mapping("spec")
    assert spec is not None
    model = typed.model(spec.scalar("url"))
    environment = containers.environment(spec.get("env"))
    profile, _, number = spec.text("resourceProfile").partition(":")
    image = containers.image(spec.get("image"))
    read = None if image is None else images.read(image.text)
    around = replace(
        reader.around,
        kind="KubeAI Model",
        name=document.text("metadata", "name"),
        environment=environment,
        gpu=gpus.read(re.sub(r"^nvidia-gpu-", "", profile)),
        count=int(number) if number.isdigit() and len(number) < 5 else None,
        platform="ROCm" if profile.startswith("amd-gpu") else "TPUs" if "tpu" in profile else None,
        release=None if read is None else read.release,
        release_reason="vLLM's image is that of KubeAI's own configuration" if read is None else read.reason,
    )
    words = ([] if model is None else [model]) + list(containers.words(spec.get("args"), environment))
    yield FoundLaunch(entry=EntryPoint.SERVE, words=tuple(words), location=spec.location, around=around)


def is_kaito_workspace(document: Node) -> bool:
    """A Workspace of kaito.sh with a preset model."""
    return (
        isinstance(document, Mapping)
        and document.text("apiVersion").startswith("kaito.sh/")
        and document.mapping("inference", "preset") is not None
    )


def kaito_workspace(document: Node, reader: Reader, beside: Beside) -> Iterator[Found]:
    """The preset with the `vllm` section of its configuration; all GPUs of the instance share the model."""
    assert isinstance(document, Mapping)
    preset = document.mapping("inference", "preset")
    assert preset is not None
    name = preset.scalar("name")
    instance = document.scalar("resource", "instanceType")
    gpu = None if instance is None else gpus.read(instance.text)
    count = None if gpu is None else gpu.count
    words: list[Passage] = [] if name is None else [name.passage]
    if instance is not None and count is not None and count > 1:
        words.append(instance.passage.replaced(f"--tensor-parallel-size={count}"))
    config = beside.maps.get(document.text("inference", "config"), {}).get("inference_config.yaml")
    if config is not None:
        words += _config(config)
    around = replace(
        reader.around,
        kind="KAITO Workspace",
        name=document.text("metadata", "name"),
        gpu=gpu,
        count=count,
        release_reason="vLLM's release is that of KAITO's own image",
    )
    yield FoundLaunch(entry=EntryPoint.SERVE, words=tuple(words), location=preset.location, around=around)


def _config(text: Passage) -> list[Passage]:
    """The options of the `vllm` section of an inference_config.yaml."""
    source = Source(text.file, text.text, text)
    try:
        read = list(documents(source))
    except YamlProblem:
        return []
    section = read[0].mapping("vllm") if read and isinstance(read[0], Mapping) else None
    return typed.fields(section)
