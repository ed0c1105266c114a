"""The formats: one table from kinds of files to readers, and one of document formats within YAML."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from kvplan.files import Ground
from kvplan.launch.found import Found, Surroundings, Unreadable
from kvplan.launch.passages import Passage, Source
from kvplan.launch.resolving import Answers
from kvplan.launch.sources import (
    charts,
    compose,
    kserve,
    kubernetes,
    operators,
    optionfile,
    ray,
    recipes,
    skypilot,
    slurm,
)
from kvplan.launch.sources.commands import ConfigMaps, Reader
from kvplan.launch.sources.typed import Beside
from kvplan.launch.sources.yamlfile import Node, YamlProblem, documents


@dataclass(frozen=True, slots=True)
class DocumentFormat:
    """A format of YAML documents: whether a document is of it, and its launches."""

    name: str
    recognises: Callable[[Node], bool]
    launches: Callable[[Node, Reader, Beside], Iterator[Found]]


DOCUMENTS: tuple[DocumentFormat, ...] = (
    DocumentFormat("compose", compose.recognises, compose.launches),
    DocumentFormat("vLLM options", optionfile.recognises, optionfile.launches),
    DocumentFormat("production-stack values", charts.is_production_stack, charts.production_stack),
    DocumentFormat("modelservice values", charts.is_modelservice, charts.modelservice),
    DocumentFormat("InferenceService", kserve.is_inference_service, kserve.inference_service),
    DocumentFormat("LLMInferenceService", kserve.is_llm_inference_service, kserve.llm_inference_service),
    DocumentFormat("KubeAI Model", operators.is_kubeai_model, operators.kubeai_model),
    DocumentFormat("KAITO Workspace", operators.is_kaito_workspace, operators.kaito_workspace),
    DocumentFormat("Ray Serve LLM", ray.recognises, ray.launches),
    DocumentFormat("SkyPilot task", skypilot.recognises, skypilot.launches),
    DocumentFormat("recipe", recipes.recognises, recipes.launches),
)
"""Formats with a reading of their own, the first that recognises a document reads it; every other YAML is walked
for containers, word lists and shell text."""


def read(
    kind: str,
    source: Source,
    around: Surroundings,
    answers: Answers,
    base: Path | None,
    maps: ConfigMaps,
    ground: Ground | None = None,
) -> Iterator[Found]:
    """The launches of a file of this kind; `maps` are ConfigMaps of files beside it, `ground` what may be
    read on its word."""
    reader = Reader(around, answers.environment, maps=maps, ground=ground)
    yield from _FILES[kind](source, reader, base)


def _yaml(source: Source, reader: Reader, base: Path | None) -> Iterator[Found]:
    read_documents: list[Node] = []
    problem: YamlProblem | None = None
    try:
        for document in documents(source):
            read_documents.append(document)
    except YamlProblem as found:
        problem = found
    yield from _documents(read_documents, reader, base)
    if problem is not None:
        reason = problem.reason
        if "{{" in source.text:
            reason = (
                "a Go template, not YAML: scan what `helm template` makes of it (`helm template … | kvplan scan -`)"
            )
        yield Unreadable(source.name, reason, problem.location)


def _documents(read_documents: list[Node], reader: Reader, base: Path | None) -> Iterator[Found]:
    maps = {**reader.maps, **kubernetes.config_maps(read_documents)}
    beside = Beside(base, tuple(read_documents), maps)
    for document in read_documents:
        known = next((form for form in DOCUMENTS if form.recognises(document)), None)
        if known is not None:
            yield from known.launches(document, replace(reader, around=replace(reader.around, kind=known.name)), beside)
        elif not kserve.is_used(document, beside):
            yield from kubernetes.launches(document, replace(reader, around=replace(reader.around, kind="YAML")), maps)


def _nested_yaml(base: Path | None, reader: Reader) -> Callable[[Passage], Iterator[Found]]:
    """Reads a manifest that stands inside another text, with its places in the outer file."""

    def read_passage(passage: Passage) -> Iterator[Found]:
        source = Source(passage.file, passage.text, passage)
        yield from _yaml(source, reader.deeper(), base)

    return read_passage


def _shell(source: Source, reader: Reader, base: Path | None) -> Iterator[Found]:
    around = reader.around if reader.around.kind == "Markdown" else replace(reader.around, kind="shell")
    around = slurm.directed(source.text, around)
    reader = replace(reader, around=around, nested_yaml=_nested_yaml(base, reader))
    yield from reader.shell(source.passage())


def _dockerfile(source: Source, reader: Reader, _base: Path | None) -> Iterator[Found]:
    from kvplan.launch.sources import dockerfile

    yield from dockerfile.launches(source, reader)


def _systemd(source: Source, reader: Reader, _base: Path | None) -> Iterator[Found]:
    from kvplan.launch.sources import systemd

    yield from systemd.launches(source, reader)


def _python(source: Source, reader: Reader, _base: Path | None) -> Iterator[Found]:
    from kvplan.launch.sources import pythonsource

    yield from pythonsource.launches(source, reader)


def _markdown(source: Source, reader: Reader, base: Path | None) -> Iterator[Found]:
    from kvplan.launch.sources import markdown

    def read_block(kind: str, block: Source, inner: Reader) -> Iterator[Found]:
        yield from _FILES[kind](block, inner, base)

    yield from markdown.launches(source, reader, read_block)


_FILES: dict[str, Callable[[Source, Reader, Path | None], Iterator[Found]]] = {
    "yaml": _yaml,
    "shell": _shell,
    "dockerfile": _dockerfile,
    "markdown": _markdown,
    "systemd": _systemd,
    "python": _python,
}
