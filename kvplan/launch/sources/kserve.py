"""KServe: InferenceService with its ServingRuntime, and LLMInferenceService."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kvplan.launch.found import Found, FoundLaunch, Surroundings
from kvplan.launch.parser import EntryPoint
from kvplan.launch.passages import Passage
from kvplan.launch.sources import containers, typed
from kvplan.launch.sources.commands import Container, Reader, container_launches
from kvplan.launch.sources.kubernetes import role_of
from kvplan.launch.sources.typed import Beside
from kvplan.launch.sources.yamlfile import Mapping, Node

MOUNTED = "/mnt/models"
"""Where KServe puts the model of `storageUri`."""

_RUNTIMES = ("ServingRuntime", "ClusterServingRuntime")


def is_inference_service(document: Node) -> bool:
    """An InferenceService of KServe whose predictor is described by its model."""
    return (
        isinstance(document, Mapping)
        and document.text("kind") == "InferenceService"
        and document.text("apiVersion").startswith("serving.kserve.io/")
        and document.mapping("spec", "predictor", "model") is not None
    )


def is_used(document: Node, beside: Beside) -> bool:
    """Whether a runtime is told of by the InferenceServices that use it."""
    if not isinstance(document, Mapping) or document.text("kind") not in _RUNTIMES:
        return False
    name = document.text("metadata", "name")
    return any(
        is_inference_service(other)
        and isinstance(other, Mapping)
        and other.text("spec", "predictor", "model", "runtime") == name
        for other in beside.documents
    )


def inference_service(document: Node, reader: Reader, beside: Beside) -> Iterator[Found]:
    """The launch of the predictor: its runtime's container with the model's own arguments."""
    assert isinstance(document, Mapping)
    predictor, model = document.mapping("spec", "predictor"), document.mapping("spec", "predictor", "model")
    assert predictor is not None
    assert model is not None
    runtime = beside.named(_RUNTIMES, model.text("runtime"))
    pod = None if runtime is None else runtime.mapping("spec")
    container = _first_container(pod)
    environment = {
        **({} if container is None else containers.environment(container.get("env"))),
        **containers.environment(model.get("env")),
    }
    counts = [containers.gpu_count(part.get("resources")) for part in (model, container) if part is not None]
    around = replace(
        reader.around,
        kind="InferenceService",
        name=document.text("metadata", "name"),
        environment=environment,
        count=next((count for count in counts if count is not None), None),
        gpu=containers.selected_gpu(predictor) or (None if pod is None else containers.selected_gpu(pod)),
        role=role_of(document.text("metadata", "name")),
    )
    stored = typed.model(model.scalar("storageUri"))
    own = containers.words(model.get("args"), environment)
    if container is not None:
        yield from _in_runtime(container, own, stored, environment, replace(reader, around=around))
    elif model.text("modelFormat", "name").lower() in ("huggingface", "vllm"):
        yield _without_runtime(model, own, stored, around)


def _first_container(pod: Mapping | None) -> Mapping | None:
    nodes = () if pod is None else pod.items("containers")
    return next((node for node in nodes if isinstance(node, Mapping)), None)


def _in_runtime(
    container: Mapping,
    own: tuple[Passage, ...],
    stored: Passage | None,
    environment: dict[str, Passage],
    reader: Reader,
) -> Iterator[Found]:
    words = [_stored(word, stored) for word in (*containers.words(container.get("args"), environment), *own)]
    described = Container(
        image=containers.image(container.get("image")),
        command=containers.words(container.get("command"), environment) or None,
        arguments=tuple(words),
        location=typed.place(container),
    )
    yield from container_launches(reader, described)


def _stored(word: Passage, stored: Passage | None) -> Passage:
    """The word with the stored model in place of its mount."""
    flag, equals, value = word.text.partition("=")
    if stored is None or MOUNTED not in (word.text, value):
        return word
    return stored if not equals else stored.replaced(f"{flag}={stored.text}")


def _without_runtime(
    model: Mapping, own: tuple[Passage, ...], stored: Passage | None, around: Surroundings
) -> FoundLaunch:
    """The words go to a runtime that the cluster has."""
    format_name = model.text("modelFormat", "name").lower()
    runtime = model.text("runtime") or (
        "huggingfaceserver" if format_name == "huggingface" else "the cluster's runtime"
    )
    at = typed.place(model)
    around = replace(around, release_reason=f"vLLM's release is that of {runtime}, which is not among what was scanned")
    named = any(word.text.split("=")[0].replace("_", "-") in ("--model-id", "--model") for word in own)
    head = [] if stored is None or named else [at.replaced("--model"), stored]
    return FoundLaunch(
        entry=EntryPoint.SERVE if format_name == "vllm" else EntryPoint.MODULE,
        words=(*head, *own),
        location=model.location,
        around=around,
        wrapper="huggingfaceserver" if format_name == "huggingface" else None,
    )


def is_llm_inference_service(document: Node) -> bool:
    """An LLMInferenceService, or a config that one is made from."""
    return isinstance(document, Mapping) and document.text("kind") in (
        "LLMInferenceService",
        "LLMInferenceServiceConfig",
    )


_PARALLEL = (
    ("tensor", "--tensor-parallel-size"),
    ("pipeline", "--pipeline-parallel-size"),
    ("data", "--data-parallel-size"),
    ("dataLocal", "--data-parallel-size-local"),
)


def llm_inference_service(document: Node, reader: Reader, _beside: Beside) -> Iterator[Found]:
    """The decode workload and, where there is one, the prefill workload."""
    assert isinstance(document, Mapping)
    spec = document.mapping("spec")
    if spec is None:
        return
    prefill = spec.mapping("prefill")
    model = typed.model(spec.scalar("model", "uri"))
    yield from _workload(document, spec, model, "decode" if prefill is not None else None, reader)
    if prefill is not None:
        yield from _workload(document, prefill, model, "prefill", reader)


def _workload(
    document: Mapping, workload: Mapping, model: Passage | None, role: str | None, reader: Reader
) -> Iterator[Found]:
    template = workload.mapping("template") or workload.mapping("worker")
    container = _first_container(template)
    environment = {} if container is None else containers.environment(container.get("env"))
    around = replace(
        reader.around,
        kind="LLMInferenceService",
        name="/".join(part for part in (document.text("metadata", "name"), role) if part),
        role=role,
        environment=environment,
        count=None if container is None else containers.gpu_count(container.get("resources")),
        gpu=None if template is None else containers.selected_gpu(template),
        release_reason="the image of the cluster's LLMInferenceServiceConfig is not among what was scanned",
    )
    at = typed.place(container or workload)
    words: list[Passage] = [] if model is None else [model]
    parallel = workload.mapping("parallelism")
    if parallel is not None:
        for name, flag in _PARALLEL:
            words += typed.option(flag, parallel.get(name))
    image, command = None, None
    if container is not None:
        image = containers.image(container.get("image"))
        command = containers.words(container.get("command"), environment) or None
        words += containers.words(container.get("args"), environment)
    more = environment.pop("VLLM_ADDITIONAL_ARGS", None)
    if more is not None:
        words += [more] if more.unknown else list(more.split())
    if command is not None:
        own = containers.words(container.get("args") if container is not None else None, environment)
        given = tuple(_stored(word, model) for word in (*command, *own))
        described = Container(image=image, command=given, location=at)
    else:
        described = Container(image=image, command=(at.replaced("vllm"), at.replaced("serve"), *words), location=at)
    yield from container_launches(replace(reader, around=around), described)
