"""Helm values of charts that build vLLM's command line: the production stack, and llm-d's modelservice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kvplan.launch.found import Found, FoundLaunch
from kvplan.launch.parser import EntryPoint
from kvplan.launch.passages import Passage, join
from kvplan.launch.sources import containers, gpus, typed
from kvplan.launch.sources.commands import Container, Reader, container_launches
from kvplan.launch.sources.typed import Beside
from kvplan.launch.sources.yamlfile import Mapping, Node, Scalar
from kvplan.launch.values import Hardware

_CONFIG = (
    ("--max-model-len", "maxModelLen"),
    ("--dtype", "dtype"),
    ("--tensor-parallel-size", "tensorParallelSize"),
    ("--max-num-seqs", "maxNumSeqs"),
    ("--gpu-memory-utilization", "gpuMemoryUtilization"),
)
"""Fields of the production stack's vllmConfig and the options its chart makes of them."""


def is_production_stack(document: Node) -> bool:
    """Values with `servingEngineSpec.modelSpec`."""
    return isinstance(document, Mapping) and bool(document.items("servingEngineSpec", "modelSpec"))


def production_stack(document: Node, reader: Reader, _beside: Beside) -> Iterator[Found]:
    """One launch an entry of `modelSpec`, as the chart's deployment template writes it."""
    assert isinstance(document, Mapping)
    for node in document.items("servingEngineSpec", "modelSpec"):
        if isinstance(node, Mapping):
            yield from _model_spec(node, reader)


def _model_spec(spec: Mapping, reader: Reader) -> Iterator[Found]:
    at = typed.place(spec)
    model = typed.model(spec.scalar("modelURL"))
    words = [at.replaced("vllm"), at.replaced("serve"), *([] if model is None else [model])]
    config = spec.mapping("vllmConfig")
    if config is not None:
        words += typed.option("--enable-chunked-prefill", config.get("enableChunkedPrefill"))
        caching = config.scalar("enablePrefixCaching")
        if caching is not None and caching.boolean:
            words += typed.option("--enable-prefix-caching", caching)
        else:
            # The chart switches it off unless it is asked for.
            words.append(typed.place(caching or config).replaced("--no-enable-prefix-caching"))
        for flag, name in _CONFIG:
            words += typed.option(flag, config.get(name))
        words += containers.words(config.get("extraArgs"))
    cache = spec.mapping("lmcacheConfig")
    enabled = None if cache is None else cache.scalar("enabled")
    if cache is not None and enabled is not None and enabled.boolean:
        role = cache.text("kvRole") or "kv_both"
        where = typed.place(enabled)
        transfer = f'{{"kv_connector": "LMCacheConnectorV1", "kv_role": "{role}"}}'
        words += [where.replaced("--kv-transfer-config"), where.replaced(transfer)]
    count, accelerator = spec.scalar("requestGPU"), spec.scalar("requestGPUType")
    around = replace(
        reader.around,
        kind="production-stack values",
        name=spec.text("name"),
        count=None if count is None else count.whole,
        gpu=containers.selected_gpu(spec) or _selector_terms(spec) or reader.around.gpu,
        environment=containers.environment(spec.get("env")),
        platform=None if accelerator is None else gpus.FOREIGN_RESOURCES.get(accelerator.text),
    )
    image = _joined(spec)
    container = Container(image=image, command=tuple(words), location=at)
    yield from container_launches(replace(reader, around=around), container)


def _selector_terms(spec: Mapping) -> Hardware | None:
    for term in spec.items("nodeSelectorTerms"):
        if isinstance(term, Mapping):
            for expression in term.items("matchExpressions"):
                values = expression.items("values") if isinstance(expression, Mapping) else ()
                if values and isinstance(expression, Mapping) and isinstance(values[0], Scalar):
                    found = gpus.named_by(expression.text("key"), values[0].text)
                    if found is not None:
                        return found
    return None


def _joined(spec: Mapping) -> Passage | None:
    repository, tag = spec.scalar("repository"), spec.scalar("tag")
    if repository is None:
        return None
    return repository.passage if tag is None else join([repository.passage, tag.passage], ":")


def is_modelservice(document: Node) -> bool:
    """Values with `modelArtifacts` and pods for decode or prefill."""
    return (
        isinstance(document, Mapping)
        and document.mapping("modelArtifacts") is not None
        and ("decode" in document or "prefill" in document)
    )


def modelservice(document: Node, reader: Reader, _beside: Beside) -> Iterator[Found]:
    """The decode and prefill containers, with the words that the chart puts in front of theirs."""
    assert isinstance(document, Mapping)
    model = typed.model(document.scalar("modelArtifacts", "uri"))
    for role in ("prefill", "decode"):
        pods = document.mapping(role)
        created = None if pods is None else pods.scalar("create")
        if pods is None or (created is not None and created.boolean is False):
            continue
        for node in pods.items("containers"):
            if isinstance(node, Mapping):
                yield from _pod(role, node, pods, model, document, reader)


def _pod(
    role: str, node: Mapping, pods: Mapping, model: Passage | None, values: Mapping, reader: Reader
) -> Iterator[Found]:
    at = typed.place(node)
    environment = containers.environment(node.get("env"))
    own = containers.words(node.get("args"), environment)
    how = node.text("modelCommand") or "custom"
    command: tuple[Passage, ...] | None
    if how == "custom":
        command, words = containers.words(node.get("command"), environment) or None, own
    else:
        parallel = pods.mapping("parallelism")
        generated = [] if model is None else [model]
        if parallel is not None:
            generated += typed.option("--tensor-parallel-size", parallel.get("tensor"))
            generated += typed.option("--data-parallel-size", parallel.get("data"))
        head = (at.replaced("vllm"), at.replaced("serve"))
        command, words = head, (*generated, *own)
    count = containers.gpu_count(node.get("resources"))
    tensor = pods.scalar("parallelism", "tensor")
    around = replace(
        reader.around,
        kind="modelservice values",
        name=f"{role}/{node.text('name') or 'vllm'}",
        role=role,
        environment=environment,
        count=count if count is not None or tensor is None else tensor.whole,
        gpu=_accelerator(pods) or _accelerator(values) or containers.selected_gpu(pods) or reader.around.gpu,
    )
    container = Container(image=containers.image(node.get("image")), command=command, arguments=words, location=at)
    for found in container_launches(replace(reader, around=around), container):
        if isinstance(found, FoundLaunch) and how != "custom":
            yield replace(found, entry=EntryPoint.SERVE, location=node.location)
        else:
            yield found


def _accelerator(node: Mapping) -> Hardware | None:
    types = node.mapping("acceleratorTypes")
    if types is None:
        return None
    for value in types.items("labelValues"):
        found = gpus.named_by(types.text("labelKey"), value.text) if isinstance(value, Scalar) else None
        if found is not None:
            return found
    return None
